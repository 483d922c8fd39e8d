"""The session's view of its helper processes: start, ask with a deadline, kill and reap, and a spare launcher kept
warm.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ....store.errors import DeviceError, InputError
from ..quarantine import clear_device, quarantine_device, quarantined_device
from .channel import Channel, ChannelClosed, ChannelDeadline

READY_S = 60.0
ANSWER_S = 120.0
REAP_S = 20.0
CANARY_S = 30.0


class HelperDied(Exception):
    """The process ended, or was ended at its deadline. `overdue` tells which; `output` is what it printed."""

    def __init__(self, overdue: bool, output: str) -> None:
        super().__init__("overdue" if overdue else "died")
        self.overdue = overdue
        self.output = output


class Helper:
    """One helper process (`launcher` or `oracle`). It is ready when the first `ask` returns."""

    def __init__(self, role: str, ordinal: int) -> None:
        self.role = role
        self._home = tempfile.TemporaryDirectory(prefix=f"kforecast-{role}-")
        self._log = tempfile.TemporaryFile(dir=self._home.name)  # noqa: SIM115  closed in close()
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        self._ready = False
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"kforecast.bench.devices.cuda.{role}", str(theirs.fileno()), str(ordinal)],
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
        return self._process.returncode is None and self._process.poll() is None

    def ask(
        self, verb: str, *, deadline_s: float = ANSWER_S, cancelled: Callable[[], bool] = lambda: False, **fields: Any
    ) -> dict[str, Any]:
        """The answer to one message. Raises HelperDied, after killing and reaping, DeviceError, InputError,
        Cancelled.
        """
        try:
            if not self._ready:
                self._expect_ready()
            self._channel.send({"verb": verb, **fields})
            answer = self._channel.receive(deadline_s, cancelled)
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
        """Kill the process and wait for the reap: only then is its device memory free. Idempotent.

        Raises DeviceError for a process that outlives SIGKILL, as one does that waits in the driver of a wedged GPU.
        """
        self._channel.close()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it may end by itself between the check and the kill
                os.killpg(self._process.pid, signal.SIGKILL)
            try:
                self._process.wait(timeout=REAP_S)
            except subprocess.TimeoutExpired as error:
                raise DeviceError(
                    f"a process outlived SIGKILL for {REAP_S:g} s: the GPU is wedged",
                    value=f"{self.role}, pid {self._process.pid}",
                    next_step="See the system log for Xid errors; the driver or the machine needs a restart.",
                ) from error
        self._log.close()
        self._home.cleanup()


class Launchers:
    """The launcher in use and a spare, so that a crash costs the next candidate no context.

    trusted_cubin: asked for the launcher's own kernels when the first process is there to load them.
    """

    def __init__(self, ordinal: int, device_id: str, trusted_cubin: Callable[[], Path]) -> None:
        self._ordinal = ordinal
        self._device_id = device_id
        self._trusted = trusted_cubin
        self._spare: Helper | None = Helper("launcher", ordinal)
        self._current: Helper | None = None
        self.facts: dict[str, Any] = {}

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
                self._current, self._spare = self._spare or Helper("launcher", self._ordinal), None
                answer = self._current.ask("trust", cubin=str(self._trusted()), deadline_s=CANARY_S)
                reason = str(answer.get("text", ""))
                if "fault" in answer or "refused" in answer:
                    continue
                self.facts = answer
                self._current.ask("open", handle=handle)
                self._spare = Helper("launcher", self._ordinal)
                clear_device(self._device_id)
                return
            except HelperDied as death:
                reason = death.output or ("it did not answer" if death.overdue else "its process died")
            except DeviceError as error:
                reason = str(error)
        known = quarantined_device(self._device_id)
        quarantine_device(self._device_id, reason)
        raise DeviceError(
            "the GPU does not run the canary kernel, so it is set aside",
            value=f"cuda:{self._ordinal}: {reason}" + (f" (since {known['since']})" if known else ""),
            next_step="See `nvidia-smi` and the system log for Xid errors; it is tried again with the next request.",
        )

    def reopen(self, handle: str) -> None:
        """Let the current launcher map a new slab."""
        if self._current is not None and self._current.alive:
            self._current.ask("open", handle=handle)

    def close(self) -> None:
        for helper in (self._current, self._spare):
            if helper is not None:
                helper.close()
        self._current = self._spare = None
