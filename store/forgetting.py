"""Dropping what may be forgotten, in batches that hold no other writer up for long.

What may go is decided once, in a read transaction that nobody waits for. Then each batch is a transaction of its own:
it first looks at what was written since the last look (every change gets a new `seq`) and keeps what that needs, so
that no batch drops a row that somebody refers to meanwhile. No batch leaves a reference without its row: a death in
between leaves a store with some old rows more, which the next time takes.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import islice

from .database import Store
from .retention import SIZES, TABLES, Forgotten, doomed

BATCH = 200
"""Rows of a transaction: some 20 ms where rows are long, and the next writer's turn comes after each."""

# What the rows of a table name, by table named.
_NAMES: dict[str, tuple[tuple[str, str], ...]] = {
    "requests": (
        ("measurements", "result_id"),
        ("kernels", "json_extract(payload, '$.kernel_id')"),
        ("kernels", "json_extract(payload, '$.baseline_id')"),
    ),
    "measurements": (("kernels", "kernel_id"), ("kernels", "baseline_id"), ("tasks", "task_id")),
    "forecasts": (("kernels", "kernel_id"), ("kernels", "baseline_id"), ("tasks", "task_id")),
    "decisions": (("forecasts", "forecast_id"),),
    "kernels": (("tasks", "task_id"),),
    "searches": (("kernels", "seed_id"), ("kernels", "best_id"), ("tasks", "task_id")),
    "nodes": (("kernels", "kernel_id"), ("measurements", "measurement_id")),
    "events": (
        ("measurements", "json_extract(json, '$.measurement_id')"),
        ("forecasts", "json_extract(json, '$.forecast_id')"),
        ("kernels", "json_extract(json, '$.kernel_id')"),
    ),
}
# Every row before those it names; decisions go with their forecast.
_ORDER = ("forecasts", "requests", "measurements", "profiles", "kernels", "tasks")


def forget(
    store: Store, before: str, *, batch: int = BATCH, on_progress: Callable[[int, int], None] = lambda done, of: None
) -> Forgotten:
    """Drop what may be forgotten and say what that was. before: UTC text; younger rows stay.

    batch: rows of a transaction (a forecast's decisions go with it, uncounted). on_progress: told after each how many
    rows are gone, of how many that might go. What others write meanwhile is seen: what it needs stays. Raises
    StoreError; what is dropped by then stays dropped, and another call drops the rest.
    """
    rest = _Doomed(store, before)
    whole = rest.count()
    for table in _ORDER:
        while rest.rows[table]:
            with store.write() as db:
                rest.keep_what_is_named_by_now(db)
                rest.drop(db, table, batch)
            on_progress(sum(rest.dropped.values()), whole)
    return Forgotten(rest.dropped, rest.dropped_bytes)


class _Doomed:
    """The rows that may still go: ids and bytes of text by table."""

    def __init__(self, store: Store, before: str) -> None:
        self.rows: dict[str, dict[str, int]] = {}
        self.dropped = dict.fromkeys(TABLES, 0)
        self.dropped_bytes = 0
        self._decisions: dict[str, list[str]] = defaultdict(list)  # by forecast
        self._asked_by: dict[str, list[str]] = defaultdict(list)  # requests by client
        with store.snapshot() as db, doomed(db, before):
            for table in TABLES:
                self.rows[table] = dict(db.execute(SIZES[table]).fetchall())
            for one, forecast in db.execute(_OF_DOOMED.format(columns="id, forecast_id", table="decisions")):
                self._decisions[forecast].append(one)
            for one, client in db.execute(_OF_DOOMED.format(columns="id, client", table="requests")):
                self._asked_by[client].append(one)
            self._seen = {
                table: int(db.execute(f"SELECT coalesce(max(seq), 0) FROM {table}").fetchone()[0]) for table in _NAMES
            }

    def count(self) -> int:
        return sum(map(len, self.rows.values()))

    def keep_what_is_named_by_now(self, db: sqlite3.Connection) -> None:
        """Keep what rows need that were written or changed since the last look."""
        for table, names in _NAMES.items():
            columns = ["seq", "NULL" if table == "events" else "id", *(column for _, column in names)]
            query = f"SELECT {', '.join(columns)} FROM {table} WHERE seq > ? ORDER BY seq"
            found = db.execute(query, (self._seen[table],)).fetchall()
            for seq, own_id, *named in found:
                self._seen[table] = seq
                self._keep(db, table, own_id)
                for (other, _), one in zip(names, named, strict=True):
                    self._keep(db, other, one)
                if table in ("measurements", "forecasts"):
                    self._keep_of_kernel(db, named[0])
                if table == "searches":  # one that goes on again
                    self._keep_all(db, "requests", self._asked_by[f"search:{own_id}"])

    def _keep_of_kernel(self, db: sqlite3.Connection, kernel_id: str) -> None:
        """Forecasts of a kernel and its measurements verify each other, and its readings stand for one another."""
        for table in ("measurements", "forecasts"):
            found = db.execute(f"SELECT id FROM {table} WHERE kernel_id = ?", (kernel_id,)).fetchall()
            self._keep_all(db, table, [row[0] for row in found])

    def _keep_all(self, db: sqlite3.Connection, table: str, ids: Iterable[str]) -> None:
        for one in ids:
            self._keep(db, table, one)

    def _keep(self, db: sqlite3.Connection, table: str, one: str | None) -> None:
        """Keep a row, and what it names in turn."""
        if one is None or self.rows.get(table, {}).pop(one, None) is None:
            return
        names = _NAMES.get(table, ())
        if names:
            columns = ", ".join(column for _, column in names)
            for row in db.execute(f"SELECT {columns} FROM {table} WHERE id = ?", (one,)).fetchall():
                for (other, _), named in zip(names, row, strict=True):
                    self._keep(db, other, named)

    def drop(self, db: sqlite3.Connection, table: str, most: int) -> None:
        """Drop the next rows of a table, `most` at most."""
        for one in list(islice(self.rows[table], most)):
            if table == "forecasts":
                for decision in self._decisions[one]:
                    self._drop_one(db, "decisions", decision)
            self._drop_one(db, table, one)

    def _drop_one(self, db: sqlite3.Connection, table: str, one: str) -> None:
        size = self.rows[table].pop(one)
        if db.execute(f"DELETE FROM {table} WHERE id = ?", (one,)).rowcount:  # 0: another gc was faster
            self.dropped[table] += 1
            self.dropped_bytes += size


_OF_DOOMED = "SELECT {columns} FROM {table} WHERE id IN (SELECT id FROM temp.doomed WHERE name = '{table}')"
