"""The change feed: what is new in the store since a reader last looked, for almost nothing when nothing is.

A poll that finds nothing new is one stat and one `PRAGMA data_version` on a connection held open. Each table's `seq` is
renewed on update, so a request that moved on is seen again. Rows that were deleted are not reported.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from . import forecasts, kernels, measurements, profiles, requests, searches, tasks
from .database import Store
from .errors import StoreError
from .faults import StoreLocked, StoreMissing
from .models import Noun
from .paths import store_path

FeedState = Literal["changed", "same", "locked", "missing", "replaced", "unreadable"]

_READERS: dict[str, Callable[[sqlite3.Row], Noun]] = {
    "tasks": tasks.TABLE.noun_of,
    "kernels": kernels.TABLE.noun_of,
    "requests": requests.of_row,
    "measurements": measurements.TABLE.noun_of,
    "forecasts": forecasts.TABLE.noun_of,
    "decisions": forecasts.DECISIONS.noun_of,
    "profiles": profiles.TABLE.noun_of,
    "searches": searches.of_row,
    "nodes": searches.node_of_row,
}

TABLES: tuple[str, ...] = tuple(_READERS)
"""The tables a feed can follow."""


@dataclass(frozen=True)
class Changes:
    """The answer of one poll.

    state: `changed`: `rows` holds what is new; `same`: nothing is; `locked`: ask again later; `missing`: there is no
    store at the path (yet, or any more); `replaced`: another file stands there; `unreadable`: `message` says why. After
    the last three forget what came before: the next poll begins at the start of what is there then.
    rows: new and changed nouns by table, in the order of their changes. more: there is more already, poll again now.
    """

    state: FeedState
    rows: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    more: bool = False
    message: str = ""


class Feed:
    """Follows a store read-only. For one thread; a poll raises nothing that a store's fate can bring about."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        tables: tuple[str, ...] = TABLES,
        from_now: bool = False,
        page: int = 1000,
        timeout_s: float = 1.0,
    ) -> None:
        """path: None is `paths.store_path()`. tables: which to follow. from_now: skip what is there when the store is
        first seen. page: most rows of a table in one poll. timeout_s: how long a poll may wait for a lock."""
        self.path = path or store_path()
        self._readers = {name: _READERS[name] for name in tables}
        self._from_now = from_now
        self._page = page
        self._timeout_s = timeout_s
        self._store: Store | None = None
        self._data_version = -1
        self._seen: dict[str, int] = {}

    @property
    def store(self) -> Store | None:
        """The store that the last poll read, to look up what its rows refer to; None where it read none."""
        return self._store

    def poll(self) -> Changes:
        """What is new since the last poll; the first one begins at the store's start, or at its end with `from_now`."""
        try:
            if self._store is not None:
                return self._poll(self._store)
            store = Store.open_readonly(self.path, timeout_s=self._timeout_s)
            self._store = store
            self._data_version = -1
            self._seen = self._ends(store) if self._from_now else dict.fromkeys(self._readers, 0)
            # Only the store that was there first may be skipped: what replaces it is new from its start.
            self._from_now = False
            return self._poll(store)
        except StoreLocked as error:
            return Changes("locked", message=str(error))
        except StoreMissing as error:
            had_store = self._store is not None
            self.close()
            self._from_now = False
            return Changes("replaced" if had_store and self.path.exists() else "missing", message=str(error))
        except StoreError as error:
            self.close()
            return Changes("unreadable", message=str(error))

    def close(self) -> None:
        """Let go of the store. The next poll opens it again and begins at its start."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _poll(self, store: Store) -> Changes:
        store.check_in_place()
        # Before the rows: a commit that comes between is then seen twice rather than never.
        version = store.data_version()
        if version == self._data_version:
            return Changes("same")
        rows: dict[str, tuple[Noun, ...]] = {}
        seen = dict(self._seen)
        more = False
        with store.snapshot() as db:
            for table, noun_of in self._readers.items():
                found = db.execute(
                    f"SELECT * FROM {table} WHERE seq > ? ORDER BY seq LIMIT ?", (seen[table], self._page)
                ).fetchall()
                if found:
                    rows[table] = tuple(map(noun_of, found))
                    seen[table] = found[-1]["seq"]
                    more = more or len(found) == self._page
        self._seen = seen
        self._data_version = -1 if more else version
        return Changes("changed", rows, more) if rows else Changes("same")

    def _ends(self, store: Store) -> dict[str, int]:
        with store.snapshot() as db:
            return {
                table: db.execute(f"SELECT coalesce(max(seq), 0) FROM {table}").fetchone()[0] for table in self._readers
            }
