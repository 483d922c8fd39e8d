"""One connection to the store that stays open while the server lives.

Whoever closes the last connection of a store folds its log into it and waits for the disk, some ten milliseconds: an
agent's every call would pay for that, were there no other connection.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ...store.database import Store
from ...store.paths import store_path

_held: dict[Path, Store] = {}
_lock = threading.Lock()


def open_store() -> Store:
    """The user's store for one call, which closes it; from the first call on another connection stays. Raises as
    `Store.open` does.
    """
    path = store_path()
    with _lock:
        if path not in _held:
            _close()
            _held[path] = Store.open(path)
    return Store.open(path)


@asynccontextmanager
async def while_serving(server: Any) -> AsyncIterator[None]:
    """The life of a server: what was held is closed at its end."""
    del server
    try:
        yield
    finally:
        with _lock:
            _close()


def _close() -> None:
    while _held:
        _held.popitem()[1].close()
