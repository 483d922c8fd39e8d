"""A lock between processes: an advisory lock on a file, which the kernel drops when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import StoreError
from .faults import locked

_SHORTEST_WAIT_S = 0.0002
_LONGEST_WAIT_S = 0.01


@contextmanager
def file_lock(path: Path, *, guarded: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock file `path`, which guards the file `guarded`; made if it is missing, never removed.

    Opened anew each time: a process forked meanwhile would share a descriptor kept open, and with it the lock.
    Raises StoreLocked after `timeout_s` seconds, StoreError if the lock file cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            f"The store's lock file cannot be opened ({error.strerror})",
            value=path,
            next_step="Check that you own it and its directory and may write to both, or set KFORECAST_DB elsewhere.",
        ) from error
    try:
        deadline = time.monotonic() + timeout_s
        wait_s = _SHORTEST_WAIT_S
        while not _taken(descriptor, path):
            if time.monotonic() > deadline:
                raise locked(guarded, timeout_s)
            time.sleep(wait_s)
            wait_s = min(wait_s * 1.5, _LONGEST_WAIT_S)
        try:
            yield
        finally:
            # Not left to the close: a process forked inside the block holds the descriptor too.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _taken(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StoreError(
            f"The file system takes no locks ({error.strerror})",
            value=path,
            next_step="Set KFORECAST_DB to an absolute path on a local disk.",
        ) from error
    return True
