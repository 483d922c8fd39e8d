"""Progress for other processes' eyes: the rows of the requests that are worked on, written now and then."""

from __future__ import annotations

import threading
from contextlib import suppress

from ...store import requests
from ...store.database import Store
from ...store.errors import KforecastError

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
        self._thread: threading.Thread | None = None
        self._end = threading.Event()

    def tell(self, request_id: str, step: str) -> bool:
        """What is being done now. False: the request was found to be no longer this owner's (cancelled, say)."""
        with self._changed:
            if self._thread is None:
                self._end = threading.Event()
                writing = threading.Thread(target=self._write, args=(self._end,), name="kforecast-telling", daemon=True)
                self._thread = writing
                writing.start()
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
            self._end.set()
            self._changed.notify_all()
        if thread is not None:
            thread.join()

    def _write(self, end: threading.Event) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: end.is_set() or self._steps != self._written)
            if end.wait(EVERY_S):
                return
            with self._changed:
                before, self._written = self._written, dict(self._steps)
            for request_id, step in self._written.items():
                if before.get(request_id) != step:
                    self._save(request_id, step)

    def _save(self, request_id: str, step: str) -> None:
        with suppress(KforecastError):  # whoever stores the result is told
            if not requests.set_progress(self._store, request_id, self._owner, step):
                with self._changed:
                    if request_id in self._steps:
                        self._lost.add(request_id)
