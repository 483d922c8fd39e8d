"""One command to a candidate's process and its answer, by the parent's clock; in between the process stands still."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

from .faults import Cancelled, KernelFault

_STANDS_S, _LOOK_S = 10.0, 0.001
"""How long one who is stopped may take to stand still, on whatever machine; and between looks, unless it stands at
once, as it does nearly always: who sleeps is slower in the next call.
"""
_SLICE_MS = 200
"""How often a long call looks whether it is still wanted; an answer ends the wait at once."""


class Standstill:
    """A candidate's process group, stopped between calls with all its threads, where that is wanted.

    number: of the group, 0 as long as it is not known. (Where no filter refuses setsid, what left the group runs on.)
    """

    def __init__(self, *, wanted: bool) -> None:
        self.number = 0
        self._wanted = wanted
        self._process = 0
        self._stopped = False

    def stop_at_answer(self, connection: socket.socket, process: int) -> None:
        """From now on the kernel stops the group in the moment that something is sent to `connection`, for whoever
        answers first and works afterwards: this process may get to look when that work is done, on a busy machine.
        process: the one of the group that answers.

        Signal-driven I/O: fcntl(2), F_SETOWN and F_SETSIG. Where a sandbox has none, `freeze` alone stops it.
        """
        if not self._wanted or not self.number:
            return
        self._process = process
        try:
            fcntl.fcntl(connection, fcntl.F_SETOWN, -self.number)
            fcntl.fcntl(connection, fcntl.F_SETSIG, signal.SIGSTOP)
            fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
        except OSError:
            return  # `freeze` has to do

    def freeze(self) -> None:
        """Stop the group, and return when the process that answers stands still.

        Its answer may be here before its stop, if it had to wait for a processor just then: until then it may write,
        and a stop that came after the next command would never end. Raises KernelFault for one that does not stop.
        """
        if not self._wanted:
            return
        self._stopped = self.signal(signal.SIGSTOP)
        begin = time.monotonic()
        while self._process and not _stands(self._process):
            waited_s = time.monotonic() - begin
            if waited_s > _STANDS_S:
                raise KernelFault("tampered", f"it ran on for {_STANDS_S:g} s after its answer, though it was stopped")
            time.sleep(_LOOK_S if waited_s > _LOOK_S else 0)

    def thaw(self) -> None:
        if self._stopped:
            self._stopped = not self.signal(signal.SIGCONT)

    def signal(self, number: int) -> bool:
        """Send a signal to the whole group; False where it has ended by itself: whoever asks it next will say so."""
        if not self.number:
            return False
        try:
            os.killpg(self.number, number)
        except ProcessLookupError:
            return False
        return True


def _stands(process: int) -> bool:
    """Whether the process stands still: stopped, or ended. Then it has left the call in which it answered."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "TZX"


def round_trip(
    connection: socket.socket,
    packet: bytes,
    deadline_s: float,
    cancelled: Callable[[], bool],
) -> int | None:
    """The nanoseconds from sending a packet until something can be read; None where nothing can by the deadline.

    Raises OSError where nobody is there to be sent to, Cancelled when `cancelled()` turns true.
    """
    answer = select.poll()
    answer.register(connection, select.POLLIN)
    begin = time.perf_counter_ns()
    connection.send(packet)
    answered = answer.poll(max(1, min(int(deadline_s * 1e3), _SLICE_MS)))
    end = time.perf_counter_ns()
    while not answered:
        if cancelled():
            raise Cancelled
        if end - begin > deadline_s * 1e9:
            return None
        answered = answer.poll(_SLICE_MS)
        end = time.perf_counter_ns()
    return end - begin


def hang_up(connection: socket.socket, within_ms: int) -> None:
    """Close a connection once the last process that holds its other end is gone: where there is no namespace, that is
    how all of them are known to have ended. Idempotent.
    """
    if connection.fileno() >= 0:
        gone = select.poll()
        gone.register(connection, 0)
        gone.poll(within_ms)
        connection.close()
