"""Forecasts beside what was measured, by forecaster and device: what was said, what came, and how good that is.

Two sources. Forecasts that stand in the store are verified by the newest believed measurement after them. Those that a
search made for itself (a replay's fold model, say) stand only in its log, and are verified by the search's own.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

import numpy as np

from ...store import pages, verified
from ...store.database import Store
from ...surrogate import density
from ...surrogate.calibration.drift import WINDOW
from ...surrogate.metrics.calibration_error import Point, ece, reliability
from ...surrogate.metrics.ranking import spearman
from ..hits import TOLD
from ..neighbours import kernel_of
from ..pairs import Standing, standing_of
from ..places import Place

MOST = 1500
"""Verified forecasts that are looked at, the newest."""
RENEWED_S = 3.0
"""What changes all the time is read anew this often."""
_HEAD_EVENTS = 200
"""Events at a log's beginning that show whether its forecasts stand in the store as well."""
_BINS = 10
_DEVICES_KINDS = ("cpu", "cuda")

Source = Literal["store", "searches"]
Order = Literal["newest", "worst"]


@dataclass(frozen=True)
class Forecaster:
    """Who forecast on a device. key: unique; made: how many forecasts; newest: when the last was made."""

    key: str
    name: str
    device: str
    source: Source
    made: int
    newest: str


@dataclass(frozen=True)
class Told:
    """One verified forecast. log2 values are octaves of S against its baseline, in a search the nearest measured
    ancestor; measured None: the kernel was not right."""

    key: str
    kernel_id: str
    name: str
    task: str
    at: str
    forecast: float
    low: float
    high: float
    p_correct: float
    p_faster: float | None
    ok: bool
    measured: float | None
    measured_low: float | None
    measured_high: float | None
    decision: str
    audited: bool
    of_bins: bool = False
    """The interval is one of bins, and open where it ends in an open one."""

    @property
    def held(self) -> bool | None:
        """Whether the 80% interval held S; None where there is no S."""
        if self.measured is None:
            return None
        low, high = density.opened(self.low, self.high) if self.of_bins else (self.low, self.high)
        return bool(low <= self.measured <= high)

    @property
    def miss(self) -> float:
        """How far off it was: octaves; of a kernel that was not right, what was promised of it."""
        if self.measured is None:
            return 4.0 * self.p_correct
        return abs(self.forecast - self.measured)

    @property
    def wins(self) -> float | None:
        """P(correct and faster)."""
        return None if self.p_faster is None else self.p_correct * self.p_faster


@dataclass(frozen=True)
class Scores:
    """What the verified forecasts come to; None where they say nothing. direction: share told on the right side of 1;
    held: share inside the 80% interval; error: mean |median - log2 S| in octaves; lean: mean of median - log2 S."""

    pairs: int
    right: int
    direction: float | None
    spearman: float | None
    held: float | None
    ece_faster: float | None
    ece_correct: float | None
    error: float | None
    lean: float | None


@dataclass(frozen=True)
class Record:
    """The record of one forecaster on a device. told: newest first. faster, correct: reliability diagrams. coverage,
    risk: share wrong among the surest. rolling: mean of median - log2 S over the last 30, in order of time. standing:
    what calibration, promise and drift make of it; None for forecasts of searches alone."""

    of: Forecaster
    told: tuple[Told, ...]
    scores: Scores
    faster: tuple[Point, ...]
    correct: tuple[Point, ...]
    coverage: tuple[float, ...]
    risk: tuple[float, ...]
    rolling: tuple[float, ...]
    standing: Standing | None


@dataclass(frozen=True)
class Snapshot:
    """The answer: all forecasters, and the record of one. stale: there is news already; ask soon."""

    forecasters: tuple[Forecaster, ...]
    record: Record | None
    stale: bool = False


@dataclass
class RecordReader:
    """Reads records. For one thread; a store that was not seen before starts anew."""

    alpha: float = 0.1
    _store: Store | None = None
    _seqs: tuple[int, ...] = ()
    _read_at: float = 0.0
    _forecasters: tuple[Forecaster, ...] = ()
    _records: dict[str, tuple[tuple[int, ...], float, Record]] = field(default_factory=dict)

    def look(self, store: Store, key: str | None) -> Snapshot:
        """The forecasters, and the record of the one with that key (None: of the one that forecast last)."""
        if store is not self._store:
            self._store, self._seqs, self._records = store, (), {}
        seqs = tuple(pages.last_seq(store, table) for table in ("forecasts", "measurements", "nodes"))
        now = time.monotonic()
        if not self._seqs or (seqs != self._seqs and now - self._read_at >= RENEWED_S):
            self._forecasters = forecasters(store)
            self._seqs, self._read_at = seqs, now
        chosen = next((one for one in self._forecasters if one.key == key), None)
        chosen = chosen or (self._forecasters[0] if self._forecasters else None)
        if chosen is None:
            return Snapshot((), None)
        known = self._records.get(chosen.key)
        if known is None or (known[0] != seqs and now - known[1] >= RENEWED_S):
            known = self._records[chosen.key] = (seqs, now, record_of(store, chosen, self.alpha))
        return Snapshot(self._forecasters, known[2], stale=self._seqs != seqs or known[0] != seqs)


def forecasters(store: Store) -> tuple[Forecaster, ...]:
    """Everybody who forecast, on each device, newest first."""
    rows = store.read(
        "SELECT forecaster, device, count(*) AS made, max(created_at) AS newest FROM forecasts GROUP BY 1, 2"
    )
    found = [
        Forecaster(f"store {row['forecaster']} {row['device']}", row["forecaster"], row["device"], "store",
                   row["made"], row["newest"])
        for row in rows
    ]  # fmt: skip
    groups: dict[tuple[str, str], list[str]] = {}
    for row in _own_searches(store):
        groups.setdefault((row["forecaster"], row["device"]), []).append(row["id"])
    for (name, device), ids in groups.items():
        tally = store.read(
            "SELECT count(*) AS made, max(nodes.created_at) AS newest FROM nodes "
            "WHERE search_id IN (SELECT value FROM json_each(?)) AND forecast_log2 IS NOT NULL",
            (json.dumps(ids),),
        )[0]
        if tally["made"]:
            key = f"searches {name} {device}"
            found.append(Forecaster(key, name, device, "searches", tally["made"], tally["newest"]))
    return tuple(sorted(found, key=lambda one: one.newest, reverse=True))


def _own_searches(store: Store) -> Sequence[dict[str, str]]:
    """Searches whose forecasts stand in their logs alone."""
    rows = store.read(
        f"""SELECT id, forecaster, device FROM searches WHERE NOT EXISTS (
              SELECT 1 FROM events WHERE search_id = searches.id AND ordinal < {_HEAD_EVENTS}
                AND kind = 'forecasted' AND json_extract(json, '$.forecast_id') IS NOT NULL
            )"""
    )
    return [dict(row) for row in rows]


def record_of(store: Store, of: Forecaster, alpha: float) -> Record:
    """The record of a forecaster on a device."""
    told = _of_store(store, of) if of.source == "store" else _of_searches(store, of)
    standing = None
    if of.source == "store":
        kind = of.device.partition(":")[0]
        place = Place(of.device, kind if kind in _DEVICES_KINDS else "cuda")
        standing = standing_of(store, of.name, place, alpha)
    return record_from(of, told, standing)


def record_from(of: Forecaster, told: Sequence[Told], standing: Standing | None = None) -> Record:
    """The record that verified forecasts come to. told: newest first."""
    timed = [one for one in told if one.measured is not None]
    sure = [one for one in told if one.wins is not None]
    sided = [one for one in timed if one.p_faster is not None]
    p_faster = np.array([one.p_faster for one in sided], dtype=float)
    was_faster = np.array([(one.measured or 0.0) > 0 for one in sided], dtype=bool)
    p_correct = np.array([one.p_correct for one in told], dtype=float)
    was_ok = np.array([one.ok for one in told], dtype=bool)
    coverage, risk = _risk(sure)
    return Record(
        of=of,
        told=tuple(told),
        scores=_scores(told, timed, p_faster, was_faster, p_correct, was_ok),
        faster=tuple(reliability(p_faster, was_faster, _BINS)),
        correct=tuple(reliability(p_correct, was_ok, _BINS)),
        coverage=coverage,
        risk=risk,
        rolling=_rolling([one.forecast - (one.measured or 0.0) for one in reversed(timed)]),
        standing=standing,
    )


def _scores(
    told: Sequence[Told],
    timed: Sequence[Told],
    p_faster: np.ndarray[tuple[int], np.dtype[np.float64]],
    was_faster: np.ndarray[tuple[int], np.dtype[np.bool_]],
    p_correct: np.ndarray[tuple[int], np.dtype[np.float64]],
    was_ok: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> Scores:
    forecast = np.array([one.forecast for one in timed], dtype=float)
    measured = np.array([one.measured for one in timed], dtype=float)
    clear = [one for one in timed if not _holds_one(one)]
    return Scores(
        pairs=len(told),
        right=len(timed),
        direction=_mean([(one.forecast > 0) == ((one.measured or 0.0) > 0) for one in clear]),
        spearman=_number(spearman(forecast, measured)) if len(timed) > 2 else None,
        held=_mean([bool(one.held) for one in timed]),
        ece_faster=_number(ece(p_faster, was_faster, _BINS)) if len(p_faster) else None,
        ece_correct=_number(ece(p_correct, was_ok, _BINS)) if len(p_correct) else None,
        error=_mean([abs(one.forecast - (one.measured or 0.0)) for one in timed]),
        lean=_mean([one.forecast - (one.measured or 0.0) for one in timed]),
    )


def _holds_one(one: Told) -> bool:
    low, high = one.measured_low, one.measured_high
    return one.measured == 0 if low is None or high is None else low <= 0 <= high


def _risk(sure: Sequence[Told]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Share wrong among the surest, as `surrogate.metrics.selective` has it: `faster` means right and S > 1."""
    if not sure:
        return (), ()
    wins = np.array([one.wins for one in sure], dtype=float)
    won = np.array([one.measured is not None and one.measured > 0 for one in sure])
    tie = np.array([one.measured == 0 for one in sure])
    wrong = (((wins > 0.5) != won) & ~tie).astype(float)
    order = np.argsort(-np.maximum(wins, 1 - wins), kind="stable")
    count = np.arange(1, len(wrong) + 1)
    return tuple((count / len(wrong)).tolist()), tuple((np.cumsum(wrong[order]) / count).tolist())


def _rolling(errors: Sequence[float]) -> tuple[float, ...]:
    """Means over the last WINDOW, from the first full window on."""
    if len(errors) < WINDOW:
        return ()
    sums = np.cumsum([0.0, *errors])
    return tuple(((sums[WINDOW:] - sums[:-WINDOW]) / WINDOW).tolist())


def _mean(values: Sequence[float | bool]) -> float | None:
    return float(np.mean(values)) if values else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _of_store(store: Store, of: Forecaster) -> list[Told]:
    found = verified.verified(store, device=of.device, forecaster=of.name)[-MOST:]
    told = []
    for one in reversed(found):
        forecast, measurement = one.forecast, one.measurement
        ok = measurement.verdict == "ok"
        if measurement.verdict == "unsupported" or (ok and measurement.log2_speedup is None):
            continue
        numbers = {name: getattr(forecast, name) for name in TOLD}
        numbers |= {name: one.decision.numbers[name] for name in TOLD if one.decision and name in one.decision.numbers}
        told.append(
            Told(
                key=forecast.id,
                kernel_id=forecast.kernel_id,
                name=_name(store, forecast.kernel_id),
                task=measurement.task_name,
                at=forecast.created_at,
                forecast=numbers["log2_median"],
                low=numbers["log2_p10"],
                high=numbers["log2_p90"],
                p_correct=forecast.p_correct,
                p_faster=float(density.p_faster(forecast.p_bins)),
                ok=ok,
                measured=measurement.log2_speedup if ok else None,
                measured_low=measurement.log2_low if ok else None,
                measured_high=measurement.log2_high if ok else None,
                decision=one.decision.kind if one.decision else "",
                audited=bool(one.decision and one.decision.audited),
                of_bins=True,
            )
        )
    return told


def _of_searches(store: Store, of: Forecaster) -> list[Told]:
    ids = [row["id"] for row in _own_searches(store) if (row["forecaster"], row["device"]) == (of.name, of.device)]
    rows = store.read(
        """SELECT nodes.id, nodes.kernel_id, nodes.idea, nodes.created_at, nodes.forecast_log2, nodes.log2_speedup,
             nodes.log2_low, nodes.log2_high, nodes.verdict, searches.task_name,
             (SELECT json FROM events WHERE events.node_id = nodes.id AND kind = 'forecasted'
              ORDER BY ordinal LIMIT 1) AS said,
             (SELECT json FROM events WHERE events.node_id = nodes.id AND kind = 'decided'
              ORDER BY ordinal LIMIT 1) AS decided
           FROM nodes JOIN searches ON searches.id = nodes.search_id
           WHERE nodes.search_id IN (SELECT value FROM json_each(?)) AND nodes.forecast_log2 IS NOT NULL
             AND nodes.state IN ('measured', 'failed') AND nodes.verdict NOT IN ('unsupported', 'quarantined', 'lost')
           ORDER BY nodes.seq DESC LIMIT ?""",
        (json.dumps(ids), MOST),
    )
    told = []
    for row in rows:
        said = json.loads(row["said"] or "{}")
        decided = json.loads(row["decided"] or "{}")
        median = said.get("log2_median")
        if median is None:
            continue
        # In the log S is against the seed; the forecaster was asked about the anchor, the nearest measured ancestor.
        base = row["forecast_log2"] - median
        told.append(
            Told(
                key=row["id"],
                kernel_id=row["kernel_id"],
                name=row["idea"] or row["kernel_id"],
                task=row["task_name"],
                at=row["created_at"],
                forecast=median,
                low=said.get("log2_p10", median),
                high=said.get("log2_p90", median),
                p_correct=said.get("p_correct", 0.0),
                p_faster=said.get("p_faster"),
                ok=row["verdict"] == "ok",
                measured=_less(row["log2_speedup"], base),
                measured_low=_less(row["log2_low"], base),
                measured_high=_less(row["log2_high"], base),
                decision=decided.get("decision", ""),
                audited=bool(decided.get("audited")),
            )
        )
    return sorted(told, key=lambda one: one.at, reverse=True)


def _less(value: float | None, base: float) -> float | None:
    return None if value is None else value - base


def _name(store: Store, kernel_id: str) -> str:
    kernel = kernel_of(store, kernel_id)
    return kernel_id if kernel is None else PurePath(kernel.name).name or kernel_id
