"""Progress for other processes' eyes: the rows of the requests that are worked on, written now and then."""

from __future__ import annotations

import threading
from contextlib import suppress

from ...store import requests
from ...store.database import Store
from ...store.errors import StoreError

EVERY_S = 0.25
"""What is over sooner is not written: on a GPU a measurement takes five steps in a tenth of a second, and each write
keeps the store's other writers waiting.
"""


class Telling:
    """Writes down what is told of the requests of one owner. Threads may share it; ends with `close`."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store, self._owner = store, owner
        self._changed = threading.Condition()
        self._steps: dict[str, str] = {}
        self._written: dict[str, str] = {}
        self._lost: set[str] = set()
        self._closing = False
        self._thread: threading.Thread | None = None

    def tell(self, request_id: str, step: str) -> bool:
        """What is being done now. False: the request was found to be no longer this owner's (cancelled, say)."""
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="kforecast-telling", daemon=True)
                self._thread.start()
            self._steps[request_id] = step
            self._changed.notify()
            return request_id not in self._lost

    def forget(self, request_id: str) -> None:
        """The request is no longer worked on: nothing more is written of it."""
        with self._changed:
            self._steps.pop(request_id, None)
            self._lost.discard(request_id)

    def close(self) -> None:
        """End the thread. `tell` starts another one."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._closing = True
            self._changed.notify()
        if thread is not None:
            thread.join()
        self._closing = False

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._steps != self._written)
                if self._changed.wait_for(lambda: self._closing, EVERY_S):
                    return
                before, self._written = self._written, dict(self._steps)
            for request_id, step in self._written.items():
                if before.get(request_id) != step:
                    self._save(request_id, step)

    def _save(self, request_id: str, step: str) -> None:
        with suppress(StoreError):  # whoever stores the result is told
            if not requests.set_progress(self._store, request_id, self._owner, step):
                with self._changed:
                    if request_id in self._steps:
                        self._lost.add(request_id)
