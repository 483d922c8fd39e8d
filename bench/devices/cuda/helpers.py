"""The session's view of its helper processes: start, ask with a deadline, kill and reap, and a spare launcher kept
warm.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ....store.errors import DeviceError, InputError
from ...faults import Cancelled
from ...turns import Turns
from ..quarantine import clear_device, quarantine_device, quarantined_device
from .channel import Channel, ChannelClosed, ChannelDeadline

READY_S = 60.0
ANSWER_S = 120.0
REAP_S = 20.0
CANARY_S = 30.0
_ALONE = ("time", "empty")
"""Messages during which nothing else may run on the device."""
_OFF_DEVICE = ("begin",)
"""Messages for which nothing runs on the device: no turn is waited for."""


class HelperDied(Exception):
    """The process ended, or was ended at its deadline. `overdue` tells which; `output` is what it printed."""

    def __init__(self, overdue: bool, output: str) -> None:
        super().__init__("overdue" if overdue else "died")
        self.overdue = overdue
        self.output = output


class Helper:
    """One helper process (`launcher` or `oracle`). It is ready when the first `ask` returns.

    turns: on a device that others measure on, what its work there takes; its times alone, everything else beside them.
    sharers: how many oracles, this one included, divide the device's memory.
    """

    def __init__(self, role: str, ordinal: int, turns: Turns | None = None, sharers: int = 1) -> None:
        self.role = role
        self._turns = turns
        self._poisoned = False
        self._home = tempfile.TemporaryDirectory(prefix=f"kforecast-{role}-")
        self._log = tempfile.TemporaryFile(dir=self._home.name)  # noqa: SIM115  closed in close()
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        self._ready = False
        with theirs:
            arguments = [str(theirs.fileno()), str(ordinal), *([str(sharers)] if role == "oracle" else [])]
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"kforecast.bench.devices.cuda.{role}", *arguments],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                cwd=self._home.name,
                env={**os.environ, "TMPDIR": self._home.name},
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """Whether there is a process of which something can be asked."""
        return not self._poisoned and self._process.returncode is None and self._process.poll() is None

    def ask(
        self,
        verb: str,
        *,
        deadline_s: float = ANSWER_S,
        cancelled: Callable[[], bool] = lambda: False,
        **fields: Any,
    ) -> dict[str, Any]:
        """The answer to one message, in the turn that it needs or that is held. Raises HelperDied, after killing and
        reaping, DeviceError, InputError, Cancelled.
        """
        try:
            if not self._ready:
                self._expect_ready()
            with contextlib.nullcontext() if verb in _OFF_DEVICE else self._turn(alone=verb in _ALONE):
                # Beside others a call has less of the device: most of it still, as what they run there is short.
                patience_s = deadline_s if self._turns is None or self._turns.is_alone else 2 * deadline_s
                answer = self._answer({"verb": verb, **fields}, patience_s, cancelled)
        except (ChannelClosed, ChannelDeadline) as error:
            output = self.output()
            self.close()
            raise HelperDied(isinstance(error, ChannelDeadline), output) from error
        if "input_error" in answer:
            told = answer["input_error"]
            raise InputError(told["what"], value=told["value"], next_step=told["next"])
        if "error" in answer:
            raise DeviceError(
                f"the {self.role} of the GPU failed", value=answer["error"], next_step="Run `kforecast doctor`."
            )
        return answer

    def _answer(self, message: dict[str, Any], patience_s: float, cancelled: Callable[[], bool]) -> dict[str, Any]:
        """The answer, or the exception for want of one. Whatever of this process may still run on a shared device is
        over then: nobody else's turn begins before. After a fault nothing runs, as the driver has ended the kernel:
        such a process is `close`d in a turn of its own.
        """
        try:
            self._channel.send(message)
            answer = self._channel.receive(patience_s, cancelled)
        except (ChannelClosed, ChannelDeadline, Cancelled):
            self._end()
            raise
        self._poisoned = "fault" in answer
        return answer

    def _turn(self, *, alone: bool) -> AbstractContextManager[None]:
        if self._turns is None:
            return contextlib.nullcontext()
        return self._turns.alone() if alone else self._turns.beside()

    def _expect_ready(self) -> None:
        answer = self._channel.receive(READY_S)
        if "error" in answer:
            raise DeviceError(
                f"the {self.role} cannot use the GPU",
                value=answer["error"],
                next_step="Run `kforecast doctor`; another process may hold the GPU, or the driver is missing.",
            )
        self._ready = True

    def output(self, limit: int = 4096) -> str:
        """What it printed, its last `limit` bytes."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), limit, max(0, size - limit)).decode(errors="replace").strip()

    def close(self) -> None:
        """Kill the process and wait for the reap: only then is its device memory free. Nobody is timed meanwhile.
        Idempotent.

        Raises DeviceError for a process that outlives SIGKILL, as one does that waits in the driver of a wedged GPU.
        """
        if self._process.returncode is None:
            with contextlib.nullcontext() if self._turns is None else self._turns.beside(patient=True):
                self._end()
        self._channel.close()  # not before: it ends by itself then, in nobody's turn
        self._log.close()
        self._home.cleanup()

    def _end(self) -> None:
        """Kill the process and wait for the reap, in a turn."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it may end by itself between the check and the kill
                os.killpg(self._process.pid, signal.SIGKILL)
            if not _ended(self._process, REAP_S):
                raise DeviceError(
                    f"a process outlived SIGKILL for {REAP_S:g} s: the GPU is wedged",
                    value=f"{self.role}, pid {self._process.pid}",
                    next_step="See the system log for Xid errors; the driver or the machine needs a restart.",
                )


def _ended(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait for a child of ours and reap it; whether it ended in time. Woken by its end, while `Popen.wait` with a
    timeout looks every 50 ms, during which nobody may use the device.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:  # an old kernel, or a sandbox that does not know the call
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=timeout_s)
        return process.returncode is not None
    try:
        ready, _, _ = select.select([descriptor], [], [], timeout_s)
    finally:
        os.close(descriptor)
    if not ready:
        return process.poll() is not None
    process.wait()
    return True


class Launchers:
    """The launcher in use and a spare, so that a crash costs the next candidate no context.

    trusted_cubin: asked for the launcher's own kernels when the first process is there to load them.
    """

    def __init__(
        self,
        ordinal: int,
        device_id: str,
        trusted_cubin: Callable[[], Path],
        turns: Turns | None = None,
    ) -> None:
        self._ordinal = ordinal
        self._device_id = device_id
        self._trusted = trusted_cubin
        self._turns = turns
        self._spare: Helper | None = self._start()
        self._current: Helper | None = None
        self.facts: dict[str, Any] = {}

    def _start(self) -> Helper:
        return Helper("launcher", self._ordinal, self._turns)

    def current(self, handle: str) -> Helper:
        """A launcher that maps the slab of this handle, its canary passed. Raises DeviceError for a device that is
        wedged.
        """
        if self._current is None or not self._current.alive:
            self._replace(handle)
        assert self._current is not None
        return self._current

    def alive(self) -> Helper | None:
        """The launcher in use, or None where it died."""
        return self._current if self._current is not None and self._current.alive else None

    def fresh(self, handle: str) -> Helper:
        """As `current`, in a process that has run nothing yet."""
        if self._current is not None:
            self._current.close()
        self._current = None
        return self.current(handle)

    def _replace(self, handle: str) -> None:
        reason = ""
        for _ in range(2):
            try:
                if self._current is not None:
                    self._current.close()  # reaped before the next one touches the device
                self._current, self._spare = self._spare or self._start(), None
                answer = self._current.ask("trust", cubin=str(self._trusted()), deadline_s=CANARY_S)
                reason = str(answer.get("text", ""))
                if "fault" in answer or "refused" in answer:
                    continue
                self.facts = answer
                self._spare = self._start()
                clear_device(self._device_id)
                break
            except HelperDied as death:
                reason = death.output or ("it did not answer" if death.overdue else "its process died")
            except DeviceError as error:
                reason = str(error)
        else:
            known = quarantined_device(self._device_id)
            quarantine_device(self._device_id, reason)
            raise DeviceError(
                "the GPU does not run the canary kernel, so it is set aside",
                value=f"cuda:{self._ordinal}: {reason}" + (f" (since {known['since']})" if known else ""),
                next_step="See `nvidia-smi` and the system log for Xid errors; the next request tries it again.",
            )
        self._open(handle)

    def _open(self, handle: str) -> None:
        """Let the launcher map the oracle's memory: without it, no call of its can be any kernel's fault."""
        assert self._current is not None
        try:
            answer = self._current.ask("open", handle=handle)
            reason = str(answer["text"]) if "fault" in answer or "refused" in answer else None
        except HelperDied as death:
            reason = death.output or "its process died"
        if reason is not None:
            self._current.close()
            raise DeviceError(
                "the launcher of the GPU cannot map the oracle's memory",
                value=f"cuda:{self._ordinal}: {reason}",
                next_step="Try again; if it stays, run `kforecast doctor`.",
            )

    def end_poisoned(self) -> None:
        """End the launcher in use where it is out of use, and wait for the reap. The spare stays."""
        if self._current is not None and not self._current.alive:
            self._current.close()

    def reopen(self, handle: str) -> None:
        """Let the current launcher map a new slab."""
        if self._current is not None and self._current.alive:
            self._open(handle)

    def close(self) -> None:
        for helper in (self._current, self._spare):
            if helper is not None:
                helper.close()
        self._current = self._spare = None
