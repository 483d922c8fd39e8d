"""The store's tables, as numbered migrations: entry i brings a store of version i to version i + 1.

Every table that readers follow has `seq`, its position in that table's order of changes: given on insert, renewed on
update, so `seq > last seen` finds both. A noun's columns are the ones people filter and sort by; `json` holds the rest.
A migration, once released, is never edited.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from .errors import StoreError

APPLICATION_ID = 0x6B666F72
"""`kfor` in the file's header: how a store of ours is told from any other SQLite file."""

_MOMENT = "TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??*Z')"
_JSON = "TEXT NOT NULL CHECK (json_valid(json))"

_FIRST = f"""
CREATE TABLE tasks (
  id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  title TEXT NOT NULL,
  json {_JSON},
  created_at {_MOMENT},
  seq INTEGER NOT NULL UNIQUE
) STRICT;
CREATE INDEX tasks_by_name ON tasks (name, created_at);

CREATE TABLE kernels (
  id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  language TEXT NOT NULL,
  task_id TEXT NOT NULL REFERENCES tasks (id),
  source_id TEXT NOT NULL,
  toolchain TEXT NOT NULL,
  source TEXT NOT NULL,
  json {_JSON},
  created_at {_MOMENT},
  seq INTEGER NOT NULL UNIQUE
) STRICT;
CREATE INDEX kernels_by_task ON kernels (task_id);
CREATE INDEX kernels_by_source ON kernels (source_id);

CREATE TABLE measurements (
  id TEXT NOT NULL PRIMARY KEY,
  task_name TEXT NOT NULL,
  device TEXT NOT NULL,
  verdict TEXT NOT NULL,
  comparison TEXT NOT NULL,
  speedup REAL,
  log2_speedup REAL,
  log2_low REAL,
  log2_high REAL,
  time_us REAL,
  time_warm_us REAL,
  baseline_us REAL,
  percent_of_floor REAL,
  noise_pct REAL,
  kernel_id TEXT NOT NULL REFERENCES kernels (id),
  baseline_id TEXT REFERENCES kernels (id),
  task_id TEXT NOT NULL REFERENCES tasks (id),
  device_id TEXT NOT NULL,
  lane TEXT NOT NULL,
  launch_mode TEXT NOT NULL,
  effort TEXT NOT NULL,
  reason TEXT NOT NULL,
  censored INTEGER NOT NULL CHECK (censored IN (0, 1)),
  device_seconds REAL NOT NULL,
  quarantine TEXT,
  -- No foreign key: a measurement may have come from a store whose requests stayed there.
  request_id TEXT,
  json {_JSON},
  created_at {_MOMENT},
  seq INTEGER NOT NULL UNIQUE
) STRICT;
CREATE INDEX measurements_by_pair ON measurements (kernel_id, baseline_id, device_id, created_at);
CREATE INDEX measurements_by_baseline ON measurements (baseline_id);
CREATE INDEX measurements_by_task ON measurements (task_id, device_id, verdict, time_us);
CREATE INDEX measurements_by_task_name ON measurements (task_name, created_at);
CREATE INDEX measurements_by_moment ON measurements (created_at);
CREATE INDEX measurements_by_request ON measurements (request_id);

CREATE TABLE requests (
  id TEXT NOT NULL PRIMARY KEY,
  kind TEXT NOT NULL,
  device TEXT NOT NULL,
  client TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'working', 'completed', 'failed', 'cancelled')),
  progress TEXT NOT NULL,
  attempts INTEGER NOT NULL CHECK (attempts >= 0),
  owner TEXT,
  result_id TEXT REFERENCES measurements (id),
  error TEXT CHECK (error IS NULL OR json_valid(error)),
  payload TEXT NOT NULL CHECK (json_valid(payload)),
  request_key TEXT UNIQUE,
  created_at {_MOMENT},
  started_at TEXT,
  finished_at TEXT,
  -- Order of asking: moments would do, were clocks never set back.
  ordinal INTEGER NOT NULL UNIQUE,
  -- Order of serving, the memory of the fair queue: the client served longest ago is next.
  turn INTEGER,
  seq INTEGER NOT NULL UNIQUE,
  CHECK ((state = 'working') = (owner IS NOT NULL)),
  CHECK ((state = 'completed') = (result_id IS NOT NULL)),
  CHECK ((state = 'failed') = (error IS NOT NULL))
) STRICT;
CREATE INDEX requests_queued ON requests (device, client, ordinal) WHERE state = 'queued';
CREATE INDEX requests_working ON requests (device, owner) WHERE state = 'working';
CREATE INDEX requests_by_client_turn ON requests (device, client, turn);
CREATE INDEX requests_by_turn ON requests (device, turn);
CREATE INDEX requests_by_result ON requests (result_id);

CREATE TABLE forecasts (
  id TEXT NOT NULL PRIMARY KEY,
  kernel_id TEXT NOT NULL REFERENCES kernels (id),
  baseline_id TEXT NOT NULL REFERENCES kernels (id),
  task_id TEXT NOT NULL REFERENCES tasks (id),
  device TEXT NOT NULL,
  forecaster TEXT NOT NULL,
  p_correct REAL NOT NULL CHECK (p_correct BETWEEN 0 AND 1),
  log2_median REAL NOT NULL,
  log2_p10 REAL NOT NULL,
  log2_p90 REAL NOT NULL,
  cost_usd REAL,
  tokens INTEGER,
  json {_JSON},
  created_at {_MOMENT},
  seq INTEGER NOT NULL UNIQUE
) STRICT;
CREATE INDEX forecasts_by_pair ON forecasts (kernel_id, baseline_id, device, created_at);
CREATE INDEX forecasts_by_baseline ON forecasts (baseline_id);
CREATE INDEX forecasts_by_task ON forecasts (task_id, forecaster, created_at);

CREATE TABLE decisions (
  id TEXT NOT NULL PRIMARY KEY,
  forecast_id TEXT NOT NULL REFERENCES forecasts (id),
  kind TEXT NOT NULL CHECK (kind IN ('trust', 'measure', 'drop')),
  reason TEXT NOT NULL,
  audit_probability REAL,
  audited INTEGER NOT NULL CHECK (audited IN (0, 1)),
  json {_JSON},
  created_at {_MOMENT},
  seq INTEGER NOT NULL UNIQUE
) STRICT;
CREATE INDEX decisions_by_forecast ON decisions (forecast_id);

CREATE TABLE profiles (
  id TEXT NOT NULL PRIMARY KEY,
  device_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  json {_JSON},
  created_at {_MOMENT},
  seq INTEGER NOT NULL UNIQUE
) STRICT;
CREATE INDEX profiles_by_device ON profiles (device_id, kind, created_at);

CREATE VIEW leaderboard AS
WITH believed AS (
  SELECT *, row_number() OVER (
    PARTITION BY task_id, device_id, launch_mode, kernel_id ORDER BY created_at DESC, seq DESC
  ) AS age
  FROM measurements
  WHERE quarantine IS NULL AND verdict = 'ok' AND NOT censored AND time_us IS NOT NULL
)
SELECT
  believed.task_name AS task,
  believed.device AS device,
  rank() OVER (
    PARTITION BY believed.task_id, believed.device_id, believed.launch_mode ORDER BY believed.time_us
  ) AS place,
  kernels.name AS kernel,
  kernels.language AS language,
  round(believed.time_us, 3) AS time_us,
  round(believed.speedup, 3) AS speedup,
  believed.comparison AS comparison,
  round(believed.percent_of_floor, 1) AS percent_of_floor,
  believed.launch_mode AS launch_mode,
  believed.effort AS effort,
  believed.created_at AS measured_at,
  believed.id AS measurement_id,
  believed.kernel_id AS kernel_id,
  believed.baseline_id AS baseline_id,
  believed.task_id AS task_id,
  believed.device_id AS device_id
FROM believed JOIN kernels ON kernels.id = believed.kernel_id
WHERE believed.age = 1
ORDER BY task, device, launch_mode, place;

CREATE VIEW recent_measurements AS
SELECT
  measurements.created_at AS measured_at,
  measurements.task_name AS task,
  measurements.device AS device,
  candidate.name AS kernel,
  baseline.name AS baseline,
  measurements.verdict AS verdict,
  measurements.comparison AS comparison,
  round(measurements.speedup, 3) AS speedup,
  round(measurements.time_us, 3) AS time_us,
  round(measurements.percent_of_floor, 1) AS percent_of_floor,
  measurements.reason AS reason,
  measurements.quarantine AS quarantine,
  measurements.id AS measurement_id,
  measurements.kernel_id AS kernel_id,
  measurements.baseline_id AS baseline_id
FROM measurements
JOIN kernels AS candidate ON candidate.id = measurements.kernel_id
LEFT JOIN kernels AS baseline ON baseline.id = measurements.baseline_id
ORDER BY measurements.created_at DESC, measurements.seq DESC;
"""

_CONSENTS = f"""
CREATE TABLE consents (
  id TEXT NOT NULL PRIMARY KEY,
  notice TEXT NOT NULL,
  json {_JSON},
  created_at {_MOMENT},
  seq INTEGER NOT NULL UNIQUE
) STRICT;
"""

_SEARCHES = f"""
CREATE TABLE searches (
  id TEXT NOT NULL PRIMARY KEY,
  state TEXT NOT NULL CHECK (
    state IN ('working', 'input_required', 'paused', 'stopping', 'completed', 'failed', 'cancelled')
  ),
  task_name TEXT NOT NULL,
  device TEXT NOT NULL,
  policy TEXT NOT NULL,
  generator TEXT NOT NULL,
  forecaster TEXT NOT NULL,
  seed_id TEXT NOT NULL REFERENCES kernels (id),
  task_id TEXT NOT NULL REFERENCES tasks (id),
  best_id TEXT REFERENCES kernels (id),
  best_log2 REAL,
  events INTEGER NOT NULL,
  request_key TEXT UNIQUE,
  json {_JSON},
  created_at {_MOMENT},
  updated_at TEXT NOT NULL,
  seq INTEGER NOT NULL UNIQUE
) STRICT;
CREATE INDEX searches_by_moment ON searches (created_at);
CREATE INDEX searches_by_seed ON searches (seed_id);
CREATE INDEX searches_by_best ON searches (best_id);

-- The log: what a search is follows from these rows alone.
CREATE TABLE events (
  search_id TEXT NOT NULL REFERENCES searches (id),
  ordinal INTEGER NOT NULL,
  kind TEXT NOT NULL,
  node_id TEXT,
  clock REAL NOT NULL,
  json {_JSON},
  created_at {_MOMENT},
  seq INTEGER NOT NULL UNIQUE,
  PRIMARY KEY (search_id, ordinal)
) STRICT;
CREATE INDEX events_by_node ON events (node_id);

-- The candidates as they stand now: a projection of the log, for readers that page through large searches.
CREATE TABLE nodes (
  id TEXT NOT NULL PRIMARY KEY,
  search_id TEXT NOT NULL REFERENCES searches (id),
  ordinal INTEGER NOT NULL,
  parent_id TEXT REFERENCES nodes (id),
  kernel_id TEXT NOT NULL REFERENCES kernels (id),
  state TEXT NOT NULL,
  idea TEXT NOT NULL,
  log2_speedup REAL,
  log2_low REAL,
  log2_high REAL,
  forecast_log2 REAL,
  p_correct REAL,
  verdict TEXT,
  measurement_id TEXT,
  created_at {_MOMENT},
  seq INTEGER NOT NULL UNIQUE,
  UNIQUE (search_id, ordinal)
) STRICT;
CREATE INDEX nodes_by_speedup ON nodes (search_id, log2_speedup);
CREATE INDEX nodes_by_parent ON nodes (parent_id);
CREATE INDEX nodes_by_kernel ON nodes (kernel_id);

CREATE TABLE leases (
  search_id TEXT NOT NULL PRIMARY KEY REFERENCES searches (id),
  owner TEXT NOT NULL,
  heartbeat_at TEXT NOT NULL
) STRICT;
"""

_SPEND = f"""
-- Calls to models. Reservations count until they are settled.
CREATE TABLE spend (
  id TEXT NOT NULL PRIMARY KEY,
  budget TEXT NOT NULL,
  who TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('reserved', 'settled')),
  usd REAL NOT NULL CHECK (usd >= 0),
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  created_at {_MOMENT},
  settled_at TEXT
) STRICT;
CREATE INDEX spend_by_budget ON spend (budget);
"""

_VIEWING = """
-- For those who watch: a million events are never read to draw one curve.
CREATE INDEX events_measured ON events (search_id, ordinal) WHERE kind = 'measured';
CREATE INDEX events_decided ON events (search_id, ordinal) WHERE kind = 'decided';
"""

_PROGRAMS = f"""
-- Runs of programs with a main() of their own: no task, no verdict, never a measurement.
CREATE TABLE program_runs (
  id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  device TEXT NOT NULL,
  device_id TEXT NOT NULL,
  outcome TEXT NOT NULL,
  exit_code INTEGER,
  kernel_us REAL,
  wall_s REAL,
  source_id TEXT NOT NULL,
  source TEXT NOT NULL,
  json {_JSON},
  created_at {_MOMENT},
  seq INTEGER NOT NULL UNIQUE
) STRICT;
CREATE INDEX program_runs_by_moment ON program_runs (created_at);
"""

MIGRATIONS: tuple[str, ...] = (_FIRST, _CONSENTS, _SEARCHES, _SPEND, _VIEWING, _PROGRAMS)
LATEST = len(MIGRATIONS)


def version(db: sqlite3.Connection, path: Path) -> int:
    """The schema version of an open store; 0 for an empty file.

    Raises StoreError for a database that is not kforecast's and for one of a newer kforecast.
    """
    # In one transaction: another process may be migrating, and half of its work must not be taken for a stranger's
    # file.
    outer = db.in_transaction
    if not outer:
        db.execute("BEGIN")
    try:
        found: int = db.execute("PRAGMA user_version").fetchone()[0]
        owner: int = db.execute("PRAGMA application_id").fetchone()[0]
        tables = _tables(db)
    finally:
        if not outer:
            db.execute("COMMIT")
    if owner != APPLICATION_ID and (owner, found, tables) != (0, 0, 0):
        raise StoreError(
            "The file is a SQLite database, but not a store of kforecast",
            value=path,
            next_step="Set KFORECAST_DB to another absolute path.",
        )
    if found > LATEST:
        raise StoreError(
            f"The store was written by a newer kforecast (schema {found}, this one knows {LATEST})",
            value=path,
            next_step="Upgrade kforecast, or set KFORECAST_DB to another absolute path.",
        )
    return found


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring the store to the latest schema in one immediate transaction. Whoever comes second finds nothing to do."""
    db.execute("BEGIN IMMEDIATE")
    try:
        for script in MIGRATIONS[version(db, path) :]:
            for statement in _statements(script):
                db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {LATEST}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _tables(db: sqlite3.Connection) -> int:
    count: int = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return count


def _statements(script: str) -> list[str]:
    # Not executescript: it commits the open transaction first.
    statements = []
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            statements.append(text.strip())
            text = ""
    return statements
