"""One reader that follows a store whatever becomes of it: locked, deleted, moved, replaced, newer, older, growing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, TypeVar

from ...store import schema
from ...store.database import Store
from ...store.errors import StoreError
from ...store.faults import StoreLocked, StoreMissing
from ...store.paths import store_path

Pulse = Literal["changed", "same", "locked", "missing", "unreadable"]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Beat:
    """The answer of one poll: `changed` and `same` say that there is a store to read; `message` says why there is none.

    `locked` goes by itself. `missing` and `unreadable` (damaged, a newer or older schema, no permission) stay until
    somebody acts; the next poll looks again.
    """

    pulse: Pulse
    message: str = ""

    @property
    def readable(self) -> bool:
        return self.pulse in ("changed", "same")


class Watch:
    """Follows a store read-only. For one thread. A poll that finds nothing new is one stat and one PRAGMA.

    Every file that stands at the path gets a `Store` object of its own: what was kept from another one is void.
    """

    def __init__(self, path: Path | None = None, *, timeout_s: float = 1.0) -> None:
        """path: None is `paths.store_path()`. timeout_s: how long a poll or a question may wait for a lock."""
        self.path = path or store_path()
        self._timeout_s = timeout_s
        self._store: Store | None = None
        self._version = -1

    def poll(self) -> Beat:
        """Whether the store changed since the last poll. Raises nothing that a store's fate can bring about."""
        try:
            if self._store is None:
                self._store = Store.open_readonly(self.path, timeout_s=self._timeout_s)
                self._version = -1
            self._store.check_in_place()
            version = self._store.data_version()
            if version == self._version:
                return Beat("same")
            with self._store.snapshot() as db:
                schema.version(db, self.path)
            self._version = version
            return Beat("changed")
        except StoreError as error:
            return self._fault(error)

    def ask(self, question: Callable[[Store], Answer]) -> Answer | Beat:
        """The answer of a question to the store as it is now, or why there is none."""
        if self._store is None:
            return Beat("missing", "The store is not open")
        try:
            return question(self._store)
        except StoreError as error:
            return self._fault(error)

    def close(self) -> None:
        """Let go of the store; the next poll opens it again."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fault(self, error: StoreError) -> Beat:
        if isinstance(error, StoreLocked):
            self._version = -1
            return Beat("locked", str(error))
        self.close()
        return Beat("missing" if isinstance(error, StoreMissing) else "unreadable", str(error))
