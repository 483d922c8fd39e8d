"""Who serves: a lock beside the broker's socket. The lock decides; the socket's file outlives a killed broker."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

_LOOK_S = 0.05


def take(socket_path: Path) -> int | None:
    """The right to serve at this socket: a descriptor to keep open while serving. None where another broker has it."""
    guard = _open(socket_path)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(guard)
        return None
    return guard


def take_when_free(socket_path: Path) -> int | None:
    """As `take`, but waits for a broker that retires: it has closed its door and finishes its last request."""
    while True:
        right = take(socket_path)
        if right is not None or socket_path.exists():
            return right
        time.sleep(_LOOK_S)


def is_held(socket_path: Path) -> bool:
    """Whether a broker has the right to serve at this socket: it starts, serves, or finishes its last work."""
    guard = _open(socket_path)
    try:
        fcntl.flock(guard, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(guard)
    return False


def _open(socket_path: Path) -> int:
    return os.open(socket_path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
