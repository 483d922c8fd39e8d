"""Reads for those who watch: small parts of large searches, incremental, each one short query over an index.

Ordinals of events and of candidates are positions in their search. `after` is the last one that was seen.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from .database import Store, Value
from .searches import Search, of_row


class Improvement(NamedTuple):
    """A measurement that was better than all exploring ones before it. ordinal: of its event; clock: the search's
    seconds; log2 S against the seed."""

    ordinal: int
    clock: float
    node_id: str
    log2: float


class Twig(NamedTuple):
    """A candidate without its words: what the shape of a tree needs. `seq` grows with every change of any candidate."""

    seq: int
    ordinal: int
    id: str
    parent_id: str | None
    state: str
    log2: float | None
    forecast: float | None
    verdict: str | None


class Event(NamedTuple):
    """A row of a log, with the moment it was written."""

    ordinal: int
    kind: str
    node_id: str | None
    clock: float
    json: str
    created_at: str


_BELIEVED = (
    "json_extract(json, '$.verdict') = 'ok' AND json_extract(json, '$.log2') IS NOT NULL "
    "AND json_extract(json, '$.purpose') <> 'verify' AND coalesce(json_extract(json, '$.censored'), 0) = 0 "
    "AND coalesce(json_extract(json, '$.quarantined'), 0) = 0"
)


def improvements(store: Store, search_id: str, *, after: int = -1, best: float = 0.0) -> list[Improvement]:
    """How the best measured log2 S rose, from `best` on, in the log after `after`."""
    rows = store.read(
        f"""SELECT ordinal, clock, node_id, log2 FROM (
              SELECT ordinal, clock, node_id, json_extract(json, '$.log2') AS log2,
                max(json_extract(json, '$.log2'))
                  OVER (ORDER BY ordinal ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
              FROM events WHERE search_id = ? AND kind = 'measured' AND ordinal > ? AND {_BELIEVED}
            ) WHERE log2 > max(coalesce(before, ?), ?) ORDER BY ordinal""",
        (search_id, after, best, best),
    )
    return list(map(Improvement._make, rows))


def decided(store: Store, search_id: str, *, after: int = -1) -> dict[str, int]:
    """How many decisions of each kind stand in the log after `after`."""
    rows = store.read(
        "SELECT json_extract(json, '$.decision') AS decision, count(*) AS times FROM events "
        "WHERE search_id = ? AND kind = 'decided' AND ordinal > ? GROUP BY 1",
        (search_id, after),
    )
    return {str(row["decision"]): int(row["times"]) for row in rows}


def audited(store: Store, search_id: str, *, after: int = -1) -> list[str]:
    """The ids of the candidates that an audit was drawn for, in the log after `after`."""
    rows = store.read(
        "SELECT node_id FROM events WHERE search_id = ? AND kind = 'decided' AND ordinal > ? "
        "AND json_extract(json, '$.audited')",
        (search_id, after),
    )
    return [str(row["node_id"]) for row in rows]


def decision_count(store: Store, search_id: str) -> int:
    """How many decisions the log holds."""
    row = store.read_one("SELECT count(*) FROM events WHERE search_id = ? AND kind = 'decided'", (search_id,))
    return 0 if row is None else int(row[0])


def decisions_page(store: Store, search_id: str, *, first: int, count: int) -> list[Event]:
    """Decisions, newest first, from the `first` on."""
    rows = store.read(
        "SELECT ordinal, kind, node_id, clock, json, created_at FROM events WHERE search_id = ? AND kind = 'decided' "
        "ORDER BY ordinal DESC LIMIT ? OFFSET ?",
        (search_id, count, first),
    )
    return list(map(Event._make, rows))


def tail(store: Store, search_id: str, *, after: int, limit: int) -> list[Event]:
    """The log after `after`, in order; of a longer one only the last `limit`."""
    rows = store.read(
        "SELECT ordinal, kind, node_id, clock, json, created_at FROM events WHERE search_id = ? AND ordinal > ? "
        "ORDER BY ordinal DESC LIMIT ?",
        (search_id, after, limit),
    )
    return list(map(Event._make, reversed(rows)))


def about_nodes(store: Store, node_ids: Sequence[str]) -> list[Event]:
    """All events about some candidates, in order."""
    marks = ", ".join("?" for _ in node_ids)
    rows = store.read(
        f"SELECT ordinal, kind, node_id, clock, json, created_at FROM events WHERE node_id IN ({marks}) ORDER BY seq",
        tuple(node_ids),
    )
    return list(map(Event._make, rows))


_TWIG = "seq, ordinal, id, parent_id, state, log2_speedup, forecast_log2, verdict"


def twigs(store: Store, search_id: str, *, first: int, count: int) -> list[Twig]:
    """Candidates in order of proposal, from the `first` on."""
    rows = store.read(
        f"SELECT {_TWIG} FROM nodes WHERE search_id = ? AND ordinal >= ? ORDER BY ordinal LIMIT ?",
        (search_id, first, count),
    )
    return list(map(Twig._make, rows))


def changed_twigs(store: Store, search_id: str, *, after_seq: int) -> list[Twig]:
    """Candidates that were added or changed since `seq` was `after_seq`."""
    rows = store.read(
        f"SELECT {_TWIG} FROM nodes WHERE +search_id = ? AND seq > ? ORDER BY seq", (search_id, after_seq)
    )
    return list(map(Twig._make, rows))


def last_seq(store: Store, table: str) -> int:
    """The `seq` of the last change of a table."""
    row = store.read_one(f"SELECT coalesce(max(seq), 0) FROM {table}")
    return 0 if row is None else int(row[0])


def ideas(store: Store, node_ids: Sequence[str]) -> dict[str, str]:
    """What each of some candidates tries, in its author's words."""
    marks = ", ".join("?" for _ in node_ids)
    values: tuple[Value, ...] = tuple(node_ids)
    return {row["id"]: row["idea"] for row in store.read(f"SELECT id, idea FROM nodes WHERE id IN ({marks})", values)}


_LISTED = """
SELECT searches.*, leases.owner AS lease_owner, leases.heartbeat_at AS lease_beat
FROM searches LEFT JOIN leases ON leases.search_id = searches.id
"""


def listed_ids(store: Store, *, order: str, like: str | None = None) -> list[str]:
    """The ids of all searches, or of those that have the text somewhere people would look, in one of ORDERS."""
    where, parameters = "true", []
    if like:
        where = (
            "instr(lower(id || ' ' || state || ' ' || task_name || ' ' || device || ' ' || policy || ' ' || generator "
            "|| ' ' || forecaster), lower(?)) > 0"
        )
        parameters = [like]
    rows = store.read(f"SELECT id FROM searches WHERE {where} ORDER BY {ORDERS[order]}", parameters)
    return [str(row["id"]) for row in rows]


ORDERS = {
    "newest": "created_at DESC, seq DESC",
    "active": "updated_at DESC, seq DESC",
    "best": "best_log2 DESC NULLS LAST, created_at DESC",
    "state": "state IN ('completed', 'failed', 'cancelled'), state IN ('paused', 'input_required'), created_at DESC",
    "task": "task_name, created_at DESC",
}
"""How searches may be ordered."""


class Listed(NamedTuple):
    """A search, and who holds its lease since when."""

    search: Search
    owner: str | None
    beat: str | None


def listed(store: Store, ids: Sequence[str]) -> list[Listed]:
    """These searches, in that order; one that is gone is left out."""
    marks = ", ".join("?" for _ in ids)
    rows = store.read(f"{_LISTED} WHERE searches.id IN ({marks})", tuple(ids))
    found = {row["id"]: Listed(of_row(row), row["lease_owner"], row["lease_beat"]) for row in rows}
    return [found[one] for one in ids if one in found]


FeedRow = sqlite3.Row
"""A row of the two reads below: id, kind, seq, created_at, kernel_id, name, task, device, who, search, outcome, log2,
low, high, p_correct, time_us, quarantined."""


def measured_since(store: Store, seq: int, *, limit: int) -> list[FeedRow]:
    """Measurements added or changed since then, in that order, with who asked for them. One that came without its
    request, of a kernel that a search has among its candidates, counts as that search's."""
    return store.read(
        """SELECT m.id, 'measurement' AS kind, m.seq, m.created_at, m.kernel_id, kernels.name, m.task_name AS task,
             m.device, requests.client AS who,
             CASE WHEN requests.client LIKE 'search:%' THEN substr(requests.client, 8)
               WHEN requests.id IS NULL THEN (SELECT search_id FROM nodes WHERE nodes.kernel_id = m.kernel_id LIMIT 1)
             END AS search,
             CASE WHEN m.comparison = 'none' THEN m.verdict ELSE m.comparison END AS outcome,
             m.log2_speedup AS log2, m.log2_low AS low, m.log2_high AS high, NULL AS p_correct, m.time_us,
             m.quarantine IS NOT NULL AS quarantined
           FROM (SELECT * FROM measurements WHERE seq > ? ORDER BY seq LIMIT ?) AS m
           JOIN kernels ON kernels.id = m.kernel_id LEFT JOIN requests ON requests.id = m.request_id ORDER BY m.seq""",
        (seq, limit),
    )


def forecast_since(store: Store, seq: int, *, limit: int) -> list[FeedRow]:
    """Forecasts added since then, in that order, with what was decided on them. One of a kernel that a search has
    among its candidates counts as that search's."""
    return store.read(
        """SELECT f.id, 'forecast' AS kind, f.seq, f.created_at, f.kernel_id, kernels.name, tasks.name AS task,
             f.device, f.forecaster AS who,
             (SELECT search_id FROM nodes WHERE nodes.kernel_id = f.kernel_id LIMIT 1) AS search,
             (SELECT kind FROM decisions WHERE forecast_id = f.id ORDER BY seq DESC LIMIT 1) AS outcome,
             f.log2_median AS log2, f.log2_p10 AS low, f.log2_p90 AS high, f.p_correct, NULL AS time_us,
             0 AS quarantined
           FROM (SELECT * FROM forecasts WHERE seq > ? ORDER BY seq LIMIT ?) AS f
           JOIN kernels ON kernels.id = f.kernel_id JOIN tasks ON tasks.id = f.task_id ORDER BY f.seq""",
        (seq, limit),
    )


def nodes_like(store: Store, search_id: str, text: str, *, limit: int) -> list[int]:
    """The ordinals of the candidates whose idea, state or verdict has the text, in order."""
    rows = store.read(
        "SELECT ordinal FROM nodes WHERE search_id = ? AND "
        "instr(lower(idea || ' ' || state || ' ' || coalesce(verdict, '') || ' ' || id), lower(?)) > 0 "
        "ORDER BY ordinal LIMIT ?",
        (search_id, text, limit),
    )
    return [int(row["ordinal"]) for row in rows]
