"""A search as an export carries it: its row, its candidates and its whole log, which belong together."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from . import searches
from .database import Store, Value
from .errors import InputError
from .models import Noun
from .searches import LoggedEvent, Search, SearchNode


class LogRow(Noun):
    """One event of a log. event: as the search engine writes it."""

    kind: str
    node_id: str | None = None
    clock: float
    event: dict[str, Any]


class SearchRecord(Noun):
    """One search, whole. Its ids and those it refers to are attributes, as of the other nouns."""

    search: Search
    nodes: tuple[SearchNode, ...] = ()
    log: tuple[LogRow, ...] = Field(min_length=1)

    @property
    def id(self) -> str:
        return self.search.id

    @property
    def created_at(self) -> str:
        return self.search.created_at

    @property
    def task_id(self) -> str:
        return self.search.task_id

    @property
    def kernel_ids(self) -> tuple[str, ...]:
        """The kernels that it refers to, each once."""
        own = [self.search.seed_id, *([self.search.best_id] if self.search.best_id is not None else [])]
        return tuple(dict.fromkeys([*own, *(node.kernel_id for node in self.nodes)]))

    def continues(self, other: SearchRecord) -> bool:
        """Whether its log is the other's, or begins with it."""
        return self.log[: len(other.log)] == other.log


class Records:
    """Searches with the methods of a `rows.Table` that an exchange needs."""

    name = "searches"
    noun = SearchRecord

    def get(self, store: Store, id_: str) -> SearchRecord | None:
        """The search with that id, or None."""
        found = searches.get(store, id_)
        return None if found is None else _record(store, found)

    def find(
        self,
        store: Store,
        where: Sequence[str] = (),
        parameters: Sequence[Value] = (),
        *,
        order: str,
        limit: int | None,
    ) -> list[SearchRecord]:
        """The searches that meet all conditions in `where`, in `order`, at most `limit`."""
        sql = f"SELECT * FROM searches WHERE {' AND '.join(where) or 'true'} ORDER BY {order} LIMIT ?"
        rows = store.read(sql, (*parameters, -1 if limit is None else limit))
        return [_record(store, searches.of_row(row)) for row in rows]

    def insert(self, db: sqlite3.Connection, noun: SearchRecord) -> bool:
        """Add a search, or bring one up to date whose log this one continues; within the caller's transaction.

        Its request key stays behind: who asked with it asked elsewhere. Raises InputError where a worker has it.
        """
        row = db.execute("SELECT events FROM searches WHERE id = ?", (noun.id,)).fetchone()
        if row is not None and db.execute("SELECT 1 FROM leases WHERE search_id = ?", (noun.id,)).fetchone():
            raise InputError(
                "A search is worked on here that the file knows more of",
                value=noun.id,
                next_step="Nothing was imported. Stop that search first: `kforecast search stop`.",
            )
        have = 0 if row is None else int(row[0])
        kept = noun.search.model_copy(update={"request_key": None, "events": len(noun.log)})
        events = [
            LoggedEvent(ordinal, line.kind, line.node_id, line.clock, json.dumps(line.event, separators=(",", ":")))
            for ordinal, line in enumerate(noun.log)
        ]
        searches.put(db, kept, events[have:], noun.nodes)
        return row is None


SEARCHES = Records()


def _record(store: Store, search: Search) -> SearchRecord:
    log = tuple(
        LogRow(kind=row.kind, node_id=row.node_id, clock=row.clock, event=json.loads(row.json))
        for row in searches.events(store, search.id)
    )
    return SearchRecord(search=search, nodes=tuple(searches.nodes(store, search.id, limit=None)), log=log)
