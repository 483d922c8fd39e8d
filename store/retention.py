"""What may be forgotten: old rows that no search, no calibration, no sibling, no quarantine and no other row needs.

Kept whatever their age: searches with their logs, candidates, forecasts and measurements; every forecast whose kernel
was measured, and every measurement of a kernel that was forecast (one left out would turn a forecast that its author
could look up into one that was verified); what is in quarantine; of each way a kernel was measured the newest believed
readings; the newest profile of a device; requests that go on. The last row of each table's order of changes stays, too:
readers follow that order, and a number given twice would hide a row from them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .database import Store

READINGS_KEPT = 2
"""Believed readings kept of each way a kernel was measured: the newest stands for it, the one before says how well
readings repeat."""

_WAY = "kernel_id, baseline_id, device, device_id, launch_mode, effort, verdict, censored"
_LAST = "seq < (SELECT max(seq) FROM {table})"
_DOOMED = "SELECT id FROM temp.doomed WHERE name = '{table}'"

_REQUESTS = """
  state IN ('completed', 'failed', 'cancelled') AND coalesce(finished_at, created_at) < :before
  AND ordinal < (SELECT max(ordinal) FROM requests)
  AND turn IS NOT (SELECT max(turn) FROM requests AS served WHERE served.device = requests.device)
  AND client NOT IN (
    SELECT 'search:' || id FROM searches WHERE state NOT IN ('completed', 'failed', 'cancelled')
  )
"""
_MEASUREMENTS = f"""
  created_at < :before AND quarantine IS NULL
  AND id IN (SELECT id FROM (
    SELECT id, row_number() OVER (PARTITION BY {_WAY} ORDER BY created_at DESC, seq DESC) AS age
    FROM measurements WHERE quarantine IS NULL
  ) WHERE age > {READINGS_KEPT})
  AND kernel_id NOT IN (SELECT kernel_id FROM forecasts)
  AND id NOT IN (SELECT measurement_id FROM nodes WHERE measurement_id IS NOT NULL)
  AND id NOT IN (SELECT measurement_id FROM temp.logged WHERE measurement_id IS NOT NULL)
  AND id NOT IN (
    SELECT result_id FROM requests WHERE result_id IS NOT NULL AND id NOT IN ({_DOOMED.format(table="requests")})
  )
"""
_FORECASTS = """
  created_at < :before
  AND kernel_id NOT IN (SELECT kernel_id FROM measurements)
  AND id NOT IN (SELECT forecast_id FROM temp.logged WHERE forecast_id IS NOT NULL)
  AND id NOT IN (SELECT id FROM (
    SELECT id, row_number() OVER (PARTITION BY device, forecaster ORDER BY created_at DESC, seq DESC) AS age
    FROM forecasts
  ) WHERE age = 1)
  AND id NOT IN (SELECT forecast_id FROM decisions WHERE seq = (SELECT max(seq) FROM decisions))
"""
_DECISIONS = f"forecast_id IN ({_DOOMED.format(table='forecasts')})"
_PROFILES = """
  created_at < :before AND id IN (SELECT id FROM (
    SELECT id, row_number() OVER (PARTITION BY device_id, kind ORDER BY created_at DESC, seq DESC) AS age FROM profiles
  ) WHERE age > 1)
"""


def _unless(column: str, table: str) -> str:
    """That no row that stays names this one."""
    stays = f"{column} IS NOT NULL AND id NOT IN ({_DOOMED.format(table=table)})"
    return f"AND id NOT IN (SELECT {column} FROM {table} WHERE {stays})"


_KERNELS = f"""
  created_at < :before
  {_unless("kernel_id", "measurements")} {_unless("baseline_id", "measurements")}
  {_unless("kernel_id", "forecasts")} {_unless("baseline_id", "forecasts")}
  {_unless("json_extract(payload, '$.kernel_id')", "requests")}
  {_unless("json_extract(payload, '$.baseline_id')", "requests")}
  AND id NOT IN (SELECT kernel_id FROM nodes)
  AND id NOT IN (SELECT kernel_id FROM temp.logged WHERE kernel_id IS NOT NULL)
  AND id NOT IN (SELECT seed_id FROM searches)
  AND id NOT IN (SELECT best_id FROM searches WHERE best_id IS NOT NULL)
"""
_TASKS = f"""
  created_at < :before
  {_unless("task_id", "kernels")} {_unless("task_id", "measurements")} {_unless("task_id", "forecasts")}
  AND id NOT IN (SELECT task_id FROM searches)
"""

# In this order nothing is looked at before all that could name it.
_RULES: tuple[tuple[str, str], ...] = (
    ("requests", _REQUESTS),
    ("measurements", _MEASUREMENTS),
    ("forecasts", _FORECASTS),
    ("decisions", _DECISIONS),
    ("profiles", _PROFILES),
    ("kernels", _KERNELS),
    ("tasks", _TASKS),
)
_TEXTS = {
    "requests": "length(payload) + coalesce(length(error), 0)",
    "kernels": "length(source) + length(json)",
}

TABLES: tuple[str, ...] = tuple(name for name, _ in _RULES)
"""The tables that old rows are dropped from."""

SIZES: dict[str, str] = {
    table: f"SELECT id, {_TEXTS.get(table, 'length(json)')} AS size FROM {table} "
    f"WHERE id IN ({_DOOMED.format(table=table)})"
    for table in TABLES
}
"""By table the query, inside `doomed`, for the ids that may go and the bytes of their text."""


@dataclass(frozen=True)
class Forgotten:
    """Rows by table that may go, or went, and the bytes of their text."""

    rows: dict[str, int]
    text_bytes: int


def forgettable(store: Store, before: str) -> Forgotten:
    """What `forgetting.forget` would drop now. before: UTC text; younger rows stay. Writes nothing."""
    with store.snapshot() as db, doomed(db, before):
        found = {
            table: db.execute(f"SELECT count(*), coalesce(sum(size), 0) FROM ({query})").fetchone()
            for table, query in SIZES.items()
        }
        return Forgotten({table: row[0] for table, row in found.items()}, sum(row[1] for row in found.values()))


@contextmanager
def doomed(db: sqlite3.Connection, before: str) -> Iterator[None]:
    """`temp.doomed` holds the rows that may go while the block runs. Works on a read-only connection as well."""
    db.execute("CREATE TEMP TABLE doomed (name TEXT, id TEXT, PRIMARY KEY (name, id)) WITHOUT ROWID")
    # The logs name measurements, forecasts and kernels inside their JSON; read once.
    db.execute(
        "CREATE TEMP TABLE logged AS SELECT json_extract(json, '$.measurement_id') AS measurement_id, "
        "json_extract(json, '$.forecast_id') AS forecast_id, json_extract(json, '$.kernel_id') AS kernel_id "
        "FROM events WHERE kind IN ('measured', 'forecasted', 'proposed')"
    )
    try:
        for table, rule in _RULES:
            where = f"{_LAST.format(table=table)} AND {rule}"
            db.execute(f"INSERT INTO temp.doomed SELECT '{table}', id FROM {table} WHERE {where}", {"before": before})
        yield
    finally:
        # A failed statement has left the transaction open, so these work; a rollback takes them along anyway.
        db.execute("DROP TABLE IF EXISTS temp.doomed")
        db.execute("DROP TABLE IF EXISTS temp.logged")
