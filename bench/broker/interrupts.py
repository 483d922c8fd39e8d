"""Ctrl-C that is not lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def remembered_interrupts() -> Iterator[Callable[[], bool]]:
    """Inside the block SIGINT does what it did, and is remembered: yields whether one came.

    Extension modules swallow a KeyboardInterrupt that arrives while they are loaded (numpy.random's do, and numpy loads
    them on first use), so a long piece of work also has to ask. Outside the main thread nothing is ever remembered.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield lambda: False
        return
    came = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        came.set()
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield came.is_set
    finally:
        signal.signal(signal.SIGINT, before)
