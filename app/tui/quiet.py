"""Keeps the loop free of what can wait: garbage is looked for while nobody types, pages are loaded ahead.

A whole collection takes as long as there are objects: 100 to 200 ms with the tree of 70,000 candidates, on whichever
thread allocates next, and both threads stand still meanwhile. So the interpreter's own schedule is off while the app
runs: young objects are looked through every second, all of them twice a minute in a pause of the user's.
"""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .app import Viewer

YOUNG_S = 1.0
WHOLE_S = 30.0
LATEST_S = 120.0
"""A user who never pauses has it done anyway by then."""
PAUSE_S = 1.5
"""Without a key for so long is a pause."""
_LOAD_AFTER_S = 0.7


class Quiet:
    """The schedule, for one app. `typed` says that a key came."""

    def __init__(self, app: Viewer) -> None:
        self._app = app
        self._typed = self._whole = time.monotonic()
        self._was_enabled = gc.isenabled()

    def start(self) -> None:
        """Begin: the app is there."""
        gc.disable()
        self._app.set_interval(YOUNG_S, self._collect)
        self._app.set_timer(_LOAD_AFTER_S, self._load)

    def stop(self) -> None:
        """The interpreter's own schedule again."""
        if self._was_enabled:
            gc.enable()

    def typed(self) -> None:
        """A key came: now is no time."""
        self._typed = time.monotonic()

    def _collect(self) -> None:
        now = time.monotonic()
        since = now - self._whole
        if (since > WHOLE_S and now - self._typed > PAUSE_S) or since > LATEST_S:
            self._whole = now
            gc.collect()
            give_back()
        else:
            gc.collect(1)

    def _load(self) -> None:
        threading.Thread(target=_load_pages, name="page-loader", daemon=True).start()


def give_back() -> None:
    """Let the C library return what it holds free to the system; glibc keeps it otherwise. Elsewhere nothing."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _load_pages() -> None:
    """Import what the pages stand on, so that opening one the first time takes no longer than the second."""
    from .pages import PAGES

    for entry in PAGES:
        import_module(f".screens.{entry.module}", __package__)
        time.sleep(0.05)  # the loop first
