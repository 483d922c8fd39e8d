"""The parent's two long-lived processes with torch: the oracle that is asked, the zygote that candidates are forked
from.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from ...store.errors import DeviceError, InputError
from ..devices.cuda.channel import Channel, ChannelClosed, ChannelDeadline
from ..faults import KernelFault

READY_S = 120.0
ANSWER_S = 600.0


def require_torch() -> None:
    """Raises DeviceError where PyTorch is not installed."""
    if find_spec("torch") is None:
        raise DeviceError(
            "measuring PyTorch programs needs PyTorch",
            value="no package torch",
            next_step="Install it: pip install 'kforecast[torch]' (for a CPU: torch from its own index).",
        )


class _Process:
    """A trusted Python process of this package with one socket, ended with its parent."""

    def __init__(
        self, module: str, kind: socket.SocketKind, arguments: Sequence[str], environment: dict[str, str]
    ) -> None:
        require_torch()
        self._home = tempfile.TemporaryDirectory(prefix=f"kforecast-{module}-")
        self._log = tempfile.TemporaryFile(dir=self._home.name)  # noqa: SIM115  closed in close()
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, kind)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"kforecast.bench.hosted.{module}", str(theirs.fileno()), *arguments],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                cwd=self._home.name,
                env={**os.environ, "TMPDIR": self._home.name, **environment},
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and self._process.poll() is None

    def last_line(self) -> str:
        """The last line it printed."""
        size = os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), 4096, max(0, size - 4096)).decode(errors="replace").strip()
        return text.rpartition("\n")[2] or "it printed nothing"

    def close(self) -> None:
        """Kill it with its group and wait for the reap. Idempotent."""
        self.socket.close()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it may end by itself between the check and the kill
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if not self._log.closed:
            self._log.close()
            self._home.cleanup()


class OracleProcess(_Process):
    """The oracle for one device (`cpu`, `cuda:N`). Ready when the first `ask` returns."""

    def __init__(self, device: str) -> None:
        super().__init__("oracle", socket.SOCK_STREAM, [device], {})
        self._channel = Channel(self.socket)
        self._ready = False

    def ask(
        self, verb: str, *, cancelled: Callable[[], bool] = lambda: False, deadline_s: float = ANSWER_S, **fields: Any
    ) -> dict[str, Any]:
        """The answer to one message. What the problem's own code cannot do here is a KernelFault `unsupported`.

        Raises DeviceError where the oracle fails, InputError for a task that is no good, Cancelled.
        """
        try:
            self._expect_ready(cancelled)
            self._channel.send({"verb": verb, **fields})
            answer = self._channel.receive(deadline_s, cancelled)
        except ChannelDeadline:
            self.close()
            raise self._failed(f"no answer to `{verb}` within {deadline_s:g} s") from None
        except ChannelClosed:
            line = self.last_line()
            self.close()
            raise self._failed(f"it ended while asked to {verb}: {line}") from None
        except BaseException:
            self.close()  # it would answer an older question next
            raise
        if "cannot_run" in answer:
            raise KernelFault("unsupported", str(answer["cannot_run"]))
        if "input_error" in answer:
            told = answer["input_error"]
            raise InputError(told["what"], value=told["value"], next_step=told["next"])
        if "error" in answer:
            raise self._failed(str(answer["error"]))
        return answer

    def ready(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Return once it has torch and, on a GPU, a context. Raises DeviceError, Cancelled."""
        try:
            self._expect_ready(cancelled)
        except (ChannelDeadline, ChannelClosed) as error:
            line = self.last_line()
            self.close()
            raise self._failed(f"it did not start: {line}") from error
        except BaseException:
            self.close()
            raise

    def _expect_ready(self, cancelled: Callable[[], bool]) -> None:
        if not self._ready:
            first = self._channel.receive(READY_S, cancelled)
            if "error" in first:
                raise self._failed(f"{first['error']}")
            self._ready = True

    @staticmethod
    def _failed(why: str) -> DeviceError:
        return DeviceError(
            "the oracle for PyTorch problems failed",
            value=why[:500],
            next_step="Try again; if it stays, the problem may need more memory than there is.",
        )


class Zygote(_Process):
    """The process that candidates are forked from. Threads may share it."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        # Threads of numpy's BLAS would not survive the fork; torch brings its own.
        super().__init__("zygote", socket.SOCK_SEQPACKET, [], {"OPENBLAS_NUM_THREADS": "1", **(environment or {})})
        self._mutex = threading.Lock()
        self._ready = False

    def spawn(self, message: dict[str, Any], files: Sequence[int]) -> socket.socket:
        """Fork a candidate; the socket tells its number and its end, see `zygote.STATUS`. Raises DeviceError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, self._mutex:
                if not self._ready:
                    self.socket.settimeout(READY_S)
                    if self.socket.recv(16) != b"ready":
                        raise OSError(self.last_line())
                    self._ready = True
                socket.send_fds(self.socket, [json.dumps(message).encode()], [*files, theirs.fileno()])
        except OSError as error:
            ours.close()
            line = self.last_line() if self._process.returncode is None else ""
            self.close()
            raise DeviceError(
                "the process that candidates are forked from failed",
                value=f"{error} {line}".strip()[:500],
                next_step="Check that `python -c 'import torch'` works, and free memory.",
            ) from error
        return ours
