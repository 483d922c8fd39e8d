"""A fair lock between processes: advisory locks on two files, which the kernel drops when their holder dies.

With one file, whoever lets go and asks again at once nearly always wins against those who sleep between their tries:
of 8 processes that did nothing but write, some waited for 8 seconds. So who wants the lock first takes the turn (a
second file) and keeps it until the lock is his; who has just let go must then queue for the turn like everybody else.
"""

from __future__ import annotations

import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import StoreError
from .faults import locked

_TURN_WAIT_S = 0.001
"""Mean pause between tries for the turn. The same for all however long they wait, so that all have the same chance."""
_LOCK_WAIT_S = 0.0002
"""Mean pause between tries for the lock, which only the one who has the turn makes."""


@contextmanager
def fair_lock(guarded: Path, *, timeout_s: float) -> Iterator[None]:
    """Hold the lock that guards a file: `-lock` and `-turn` beside it, made if they are missing, never removed.

    Opened anew each time: a process forked meanwhile would share descriptors kept open, and with them the lock.
    Raises StoreLocked after `timeout_s` seconds, StoreError if the files cannot be opened or locked.
    """
    deadline = time.monotonic() + timeout_s
    with _opened(guarded.with_name(guarded.name + "-lock")) as lock:
        with _opened(guarded.with_name(guarded.name + "-turn")) as turn:
            taken = _take(turn, guarded, deadline, _TURN_WAIT_S) and _take(lock, guarded, deadline, _LOCK_WAIT_S)
            if not taken:
                raise locked(guarded, timeout_s)
        yield


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            f"The store's lock file cannot be opened ({error.strerror})",
            value=path,
            next_step="Check that you own it and its directory and may write to both, or set KFORECAST_DB elsewhere.",
        ) from error
    try:
        yield descriptor
    finally:
        # Unlocked before it is closed: a process forked inside the block holds the descriptor too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _take(descriptor: int, guarded: Path, deadline: float, wait_s: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(random.uniform(0.5, 1.5) * wait_s)
        except OSError as error:
            raise StoreError(
                f"The file system takes no locks ({error.strerror})",
                value=guarded,
                next_step="Set KFORECAST_DB to an absolute path on a local disk.",
            ) from error
        else:
            return True
