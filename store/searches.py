"""Searches in the store: the log of each, its candidates as they stand, and who works on it.

The log is the truth and only grows. An append names the length it expects, so a writer that missed something learns
so before it adds to it; a worker's append also needs the lease, so one that was thought dead cannot come back.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, ValidationError

from . import kernels
from .clock import utc_now
from .database import Store, Value
from .errors import InputError, StoreError
from .models import Kernel, Noun
from .rows import unreadable

SearchState = Literal["working", "input_required", "paused", "stopping", "completed", "failed", "cancelled"]
ENDED: tuple[SearchState, ...] = ("completed", "failed", "cancelled")


class Search(Noun):
    """A search as it stands: a summary of its log, kept beside it."""

    id: str
    state: SearchState
    task_name: str
    device: str
    policy: str
    generator: str
    forecaster: str
    seed_id: str
    task_id: str
    best_id: str | None = None
    """The best measured kernel; None until one was measured."""
    best_log2: float | None = None
    """Its log2 S against the seed."""
    events: int = 0
    """Length of the log."""
    request_key: str | None = None
    counts: dict[str, int] = Field(default_factory=dict)
    spent: dict[str, float] = Field(default_factory=dict)
    limits: dict[str, float] = Field(default_factory=dict)
    reason: str = ""
    """Why it ended, waits or failed."""
    created_at: str
    updated_at: str


class SearchNode(Noun):
    """A candidate of a search as it stands. log2 S is against the search's seed."""

    id: str
    search_id: str
    ordinal: int
    parent_id: str | None = None
    kernel_id: str
    state: str
    idea: str = ""
    log2_speedup: float | None = None
    log2_low: float | None = None
    log2_high: float | None = None
    forecast_log2: float | None = None
    p_correct: float | None = None
    verdict: str | None = None
    measurement_id: str | None = None
    created_at: str


@dataclass(frozen=True)
class LoggedEvent:
    """One row of a log. `json` is the event as the search engine writes it; the columns are for readers."""

    ordinal: int
    kind: str
    node_id: str | None
    clock: float
    """Seconds on the search's own clock: time it was worked on, or virtual time."""
    json: str


class LogMoved(StoreError):
    """Somebody else appended meanwhile: read the log on, and decide anew."""


class LeaseLost(StoreError):
    """Another worker has the search."""


_SUMMARY = ("counts", "spent", "limits", "reason")
_SEARCH_COLUMNS = tuple(name for name in Search.model_fields if name not in _SUMMARY)
_NODE_COLUMNS = tuple(SearchNode.model_fields)
_FIXED = ("id", "search_id", "ordinal", "parent_id", "kernel_id", "created_at")
"""Of a candidate: never changed, so their indexes are left alone."""
_RENEWED = ("state", "best_id", "best_log2", "events", "json", "updated_at")
"""Of a search: what an append changes."""
_UPSERT_NODE = (
    f"INSERT INTO nodes ({', '.join(_NODE_COLUMNS)}, seq) VALUES ({', '.join('?' * len(_NODE_COLUMNS))}, "
    "(SELECT coalesce(max(seq), 0) + 1 FROM nodes)) ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _NODE_COLUMNS if name not in _FIXED)
    + ", seq = excluded.seq"
)


def create(store: Store, search: Search, events: Sequence[LoggedEvent]) -> Search:
    """Save a new search with the beginning of its log; with a `request_key` used before, the search that has it."""
    with store.write() as db:
        if search.request_key is not None:
            row = db.execute("SELECT * FROM searches WHERE request_key = ?", (search.request_key,)).fetchone()
            if row is not None:
                return of_row(row)
        saved = search.model_copy(update={"events": len(events)})
        put(db, saved, events, ())
        return saved


def put(db: sqlite3.Connection, search: Search, events: Sequence[LoggedEvent], nodes: Sequence[SearchNode]) -> None:
    """Put a search as it stands elsewhere in the place of what is here of it, within the caller's transaction.

    events: those that are not here yet.
    """
    values = _values(search)
    renewed = ", ".join(f"{name} = excluded.{name}" for name in _RENEWED)
    db.execute(
        f"INSERT INTO searches ({', '.join(values)}, seq) VALUES ({', '.join('?' * len(values))}, "
        f"(SELECT coalesce(max(seq), 0) + 1 FROM searches)) ON CONFLICT (id) DO UPDATE SET {renewed}, "
        "seq = excluded.seq",
        tuple(values.values()),
    )
    _insert_events(db, search.id, events)
    for node in nodes:
        db.execute(_UPSERT_NODE, tuple(getattr(node, name) for name in _NODE_COLUMNS))


def append(
    store: Store,
    search: Search,
    events: Sequence[LoggedEvent],
    nodes: Sequence[SearchNode] = (),
    *,
    new_kernels: Sequence[Kernel] = (),
    owner: str | None = None,
) -> None:
    """Append to a log and renew what stands beside it, all or nothing.

    search: the summary after these events; `search.events` is the length after them. new_kernels: of candidates among
    the events. owner: the worker, whose lease is checked. Raises LogMoved where the log is not as long as the events
    suppose, LeaseLost where another has the lease.
    """
    with store.write() as db:
        if owner is not None:
            _check_lease(db, search.id, owner)
        length = db.execute("SELECT events FROM searches WHERE id = ?", (search.id,)).fetchone()
        if length is None:
            raise _unknown(search.id)
        if length[0] != search.events - len(events):
            raise LogMoved(
                "The search's log has grown meanwhile",
                value=search.id,
                next_step="Read the log on and decide anew.",
            )
        for kernel in new_kernels:
            kernels.TABLE.insert(db, kernel, keep_first=True)
        _insert_events(db, search.id, events)
        for node in nodes:
            db.execute(_UPSERT_NODE, tuple(getattr(node, name) for name in _NODE_COLUMNS))
        values = {name: value for name, value in _values(search).items() if name in _RENEWED}
        db.execute(
            f"UPDATE searches SET {', '.join(f'{name} = ?' for name in values)}, "
            "seq = (SELECT max(seq) + 1 FROM searches) WHERE id = ?",
            (*values.values(), search.id),
        )


def events(store: Store, search_id: str, *, after: int = -1, limit: int | None = None) -> list[LoggedEvent]:
    """The log from the event after `after` on, in order, at most `limit`."""
    rows = store.read(
        "SELECT ordinal, kind, node_id, clock, json FROM events WHERE search_id = ? AND ordinal > ? "
        "ORDER BY ordinal LIMIT ?",
        (search_id, after, -1 if limit is None else limit),
    )
    return [LoggedEvent(*row) for row in rows]


def get(store: Store, search_id: str) -> Search | None:
    """The search with that id, or None."""
    row = store.read_one("SELECT * FROM searches WHERE id = ?", (search_id,))
    return None if row is None else of_row(row)


def resolve(store: Store, prefix: str) -> Search:
    """The one search whose id is or begins with `prefix`. Raises InputError where none or several do."""
    rows = store.read(
        "SELECT * FROM searches WHERE id >= ? AND id < ? ORDER BY id LIMIT 3", (prefix, prefix + "\U0010ffff")
    )
    exact = [row for row in rows if row["id"] == prefix]
    if len(exact or rows) != 1 or len(prefix) < 4:
        raise _unknown(prefix)
    return of_row((exact or rows)[0])


def by_key(store: Store, request_key: str) -> Search | None:
    """The search that was asked for with that key, or None."""
    row = store.read_one("SELECT * FROM searches WHERE request_key = ?", (request_key,))
    return None if row is None else of_row(row)


def recent(store: Store, limit: int = 10) -> list[Search]:
    """The searches begun last, newest first."""
    return [of_row(row) for row in store.read("SELECT * FROM searches ORDER BY created_at DESC LIMIT ?", (limit,))]


def nodes(
    store: Store, search_id: str, *, best_first: bool = False, limit: int | None = 50, offset: int = 0
) -> list[SearchNode]:
    """A page of a search's candidates: in order of proposal, or the measured ones by log2 S."""
    where = "search_id = ? AND log2_speedup IS NOT NULL" if best_first else "search_id = ?"
    order = "log2_speedup DESC, ordinal" if best_first else "ordinal"
    rows = store.read(
        f"SELECT * FROM nodes WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?",
        (search_id, -1 if limit is None else limit, offset),
    )
    return [node_of_row(row) for row in rows]


def take_lease(
    store: Store, search_id: str, owner: str, is_alive: Callable[[str], bool], *, stale_before: str
) -> str | None:
    """Become the worker of a search; None when that took, else the name of the worker that has it.

    A lease may be taken from an owner that is dead, or whose heartbeat is older than the UTC moment `stale_before`.
    """
    while True:
        row = store.read_one("SELECT owner, heartbeat_at FROM leases WHERE search_id = ?", (search_id,))
        holder = None if row is None else str(row["owner"])
        fresh = row is not None and row["heartbeat_at"] >= stale_before
        if holder is not None and holder != owner and fresh and is_alive(holder):
            return holder
        with store.write() as db:
            now = db.execute("SELECT owner FROM leases WHERE search_id = ?", (search_id,)).fetchone()
            if (None if now is None else now[0]) != holder:
                continue
            db.execute(
                "INSERT INTO leases (search_id, owner, heartbeat_at) VALUES (?, ?, ?) "
                "ON CONFLICT (search_id) DO UPDATE SET owner = excluded.owner, heartbeat_at = excluded.heartbeat_at",
                (search_id, owner, utc_now()),
            )
            return None


def beat(store: Store, search_id: str, owner: str) -> None:
    """Renew the lease. Raises LeaseLost where another has it."""
    with store.write() as db:
        _check_lease(db, search_id, owner)
        db.execute("UPDATE leases SET heartbeat_at = ? WHERE search_id = ?", (utc_now(), search_id))


def drop_lease(store: Store, search_id: str, owner: str) -> None:
    """Give the lease back; no error where it is another's."""
    with store.write() as db:
        db.execute("DELETE FROM leases WHERE search_id = ? AND owner = ?", (search_id, owner))


def lease(store: Store, search_id: str) -> tuple[str, str] | None:
    """Who works on a search, and when that was last said; or None."""
    row = store.read_one("SELECT owner, heartbeat_at FROM leases WHERE search_id = ?", (search_id,))
    return None if row is None else (row["owner"], row["heartbeat_at"])


def of_row(row: sqlite3.Row) -> Search:
    """The search of a row of the table. Raises StoreError for a row that is none."""
    try:
        fields: dict[str, Any] = {name: row[name] for name in _SEARCH_COLUMNS}
        return Search.model_validate({**fields, **json.loads(row["json"])})
    except (ValidationError, ValueError) as error:
        raise unreadable("searches", row["id"], error) from error


def node_of_row(row: sqlite3.Row) -> SearchNode:
    """The candidate of a row of the table. Raises StoreError for a row that is none."""
    try:
        return SearchNode.model_validate({name: row[name] for name in _NODE_COLUMNS})
    except ValidationError as error:
        raise unreadable("nodes", row["id"], error) from error


def _insert_events(db: sqlite3.Connection, search_id: str, events: Sequence[LoggedEvent]) -> None:
    now = utc_now()
    for event in events:
        db.execute(
            "INSERT INTO events (search_id, ordinal, kind, node_id, clock, json, created_at, seq) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, (SELECT coalesce(max(seq), 0) + 1 FROM events))",
            (search_id, event.ordinal, event.kind, event.node_id, event.clock, event.json, now),
        )


def _values(search: Search) -> dict[str, Value]:
    values: dict[str, Value] = {name: getattr(search, name) for name in _SEARCH_COLUMNS}
    values["json"] = json.dumps({name: getattr(search, name) for name in _SUMMARY}, separators=(",", ":"))
    return values


def _check_lease(db: sqlite3.Connection, search_id: str, owner: str) -> None:
    row = db.execute("SELECT owner FROM leases WHERE search_id = ?", (search_id,)).fetchone()
    if row is None or row[0] != owner:
        raise LeaseLost(
            "Another worker has the search",
            value=search_id,
            next_step="This one ends; `kforecast search list` shows the search.",
        )


def _unknown(search_id: str) -> InputError:
    return InputError(
        "The store has no search with that id", value=search_id, next_step="`kforecast search list` lists them."
    )
