"""Turns on a device that several processes measure on: beside each other while they check, alone while one times.

Locks on files, which the kernel drops when their holder dies, however it dies. Whoever wants to be alone waits in a
queue (a second file) that nobody passes meanwhile: so those who come and go together cannot keep him out.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path

from ..store.paths import runtime_dir
from .faults import Cancelled

_LOOK_S = 0.02
"""How often whoever waits looks whether the turn is still wanted."""


@contextmanager
def turn(path: Path, *, alone: bool, waiting: Callable[[float], None]) -> Iterator[int]:
    """Hold a file's lock, alone or beside others who want it beside others; yields the file's descriptor.

    waiting: told now and then how many seconds were waited; what it raises ends the waiting. The file and its queue
    (`-queue`) are made if they are missing, never removed. Not to be nested: it would wait for itself.
    """
    how = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    with opened(path) as lock:
        with opened(path.with_name(path.name + "-queue")) as queue:
            begin = time.monotonic()
            _take(queue, how, begin, waiting)
            _take(lock, how, begin, waiting)
        yield lock


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor of a file for locks, which is made if it is missing; its lock ends with the block."""
    # Anew each time: a process that is forked meanwhile shares descriptors that are kept open, and their locks.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _take(descriptor: int, how: int, begin: float, waiting: Callable[[float], None]) -> None:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        taken = _taken(descriptor, how)
        try:
            while not wait([taken], _LOOK_S).done:
                waiting(time.monotonic() - begin)
        except BaseException:
            taken.cancel()
            raise
        taken.result()


def _taken(descriptor: int, how: int) -> Future[None]:
    """Done once the lock is held. A thread sleeps for it, which the kernel wakes the moment it is free: whoever tries
    again and again leaves the device idle for half of the time between two tries, at every turn.

    The thread has a descriptor of its own of the same open file, and gives the lock back where the waiting was given
    up.
    """
    taken: Future[None] = Future()
    own = os.dup(descriptor)

    def take() -> None:
        try:
            fcntl.flock(own, how)
            if taken.set_running_or_notify_cancel():
                taken.set_result(None)
            else:
                fcntl.flock(own, fcntl.LOCK_UN)
        except OSError as error:
            if taken.set_running_or_notify_cancel():
                taken.set_exception(error)
        finally:
            os.close(own)

    try:
        threading.Thread(target=take, name="kforecast-turn", daemon=True).start()
    except RuntimeError:
        os.close(own)
        raise
    return taken


class Turns:
    """The turns of one process on a device that others measure on, too; for one measurement at a time.

    A turn is held for as long as something runs on the device, and not in between. Inside a turn there are no others:
    `beside` and `alone` take what is held already. waited_s, alone_s: seconds waited for turns and spent alone so far.
    """

    def __init__(self, device_id: str) -> None:
        self._path = runtime_dir() / f"device-{device_id}.turns"
        self._held: bool | None = None
        self._cancelled: Callable[[], bool] = _never
        self.waited_s = 0.0
        self.alone_s = 0.0

    @property
    def is_alone(self) -> bool:
        """Whether a turn is held now that nobody else has a part in."""
        return self._held is True

    @contextmanager
    def beside(self, *, patient: bool = False) -> Iterator[None]:
        """Use the device beside others, none of whom times anything. Raises Cancelled while it waits, unless
        `patient`.
        """
        if self._held is not None:
            yield
            return
        with self._turn(alone=False, patient=patient):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Use the device alone. Raises Cancelled while it waits."""
        if self._held is not None:
            assert self._held, "who is beside others cannot become alone: two of them would wait for each other"
            yield
            return
        with self._turn(alone=True):
            begin = time.monotonic()
            try:
                yield
            finally:
                self.alone_s += time.monotonic() - begin

    @contextmanager
    def measuring(self, cancelled: Callable[[], bool]) -> Iterator[Held]:
        """Inside the block, waiting ends with Cancelled when `cancelled()` turns true."""
        self._cancelled = cancelled
        try:
            yield Held(self)
        finally:
            self._cancelled = _never

    @contextmanager
    def _turn(self, *, alone: bool, patient: bool = False) -> Iterator[None]:
        begin = time.monotonic()
        try:
            with turn(self._path, alone=alone, waiting=_go_on if patient else self._look):
                self.waited_s += time.monotonic() - begin
                self._held = alone
                yield
        finally:
            self._held = None

    def _look(self, waited_s: float) -> None:
        if self._cancelled():
            raise Cancelled


class Held:
    """How long a measurement has held its device: seconds since it was made, without those waited for turns.

    turns: None where the device is the measurement's alone from its first run to its last.
    """

    def __init__(self, turns: Turns | None = None) -> None:
        self.turns = turns
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self._begin = time.monotonic()
        self._before = (0.0, 0.0) if self.turns is None else (self.turns.waited_s, self.turns.alone_s)

    @property
    def seconds(self) -> float:
        """Wall seconds so far, without those waited."""
        return time.monotonic() - self._begin - self.waited_s

    @property
    def waited_s(self) -> float:
        return 0.0 if self.turns is None else self.turns.waited_s - self._before[0]

    @property
    def alone_s(self) -> float:
        """Of `seconds`, those in which nobody else used the device."""
        return self.seconds if self.turns is None else self.turns.alone_s - self._before[1]

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Use the device alone, inside the block."""
        if self.turns is None:
            yield
            return
        with self.turns.alone():
            yield


def _never() -> bool:
    return False


def _go_on(waited_s: float) -> None:
    """Wait on, whatever happens."""
