"""What `kforecast status` shows, block by block: store, devices, queue, searches, forecasts, measurements."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from .output import Column, bold, dim, shorten, table

if TYPE_CHECKING:
    from ..tools.following import ForecastLine, Present, SearchLine
    from ..tools.status import MeasurementLine, Status

_NAME = 24


def status_blocks(now: Status | Present) -> list[list[str]]:
    """The blocks of the page, each its lines with the heading first."""
    blocks = [_store(now), _devices(now)]
    if now.unfinished:
        blocks.append(_queue(now))
    searches, forecasts = getattr(now, "searches", ()), getattr(now, "forecasts", ())
    if searches:
        blocks.append(_searches(searches))
    if forecasts:
        blocks.append(_forecasts(forecasts))
    return [*blocks, _measurements(now)]


def _store(now: Status) -> list[str]:
    return [f"{bold('store')}  {now.store}{'' if now.store_exists else '  (not made yet)'}"]


def _devices(now: Status) -> list[str]:
    held = [f"  {h.device or 'a device'}  process {h.pid}  {h.purpose}  {ago(h.since)}".rstrip() for h in now.holders]
    return [bold("devices in use"), *(held or [dim("  none")])]


def _queue(now: Status) -> list[str]:
    rows = now.unfinished
    waiting = table(
        [
            Column("request", [line.request_id for line in rows]),
            Column("device", [line.device for line in rows]),
            Column("state", [line.state for line in rows]),
            Column("before it", ["" if line.before is None else str(line.before) for line in rows], True),
            Column("client", [line.client for line in rows], drop=2),
            Column("progress", [shorten(line.progress, 40) for line in rows], drop=1),
        ]
    )
    return [bold("unfinished"), *waiting.splitlines()]


def _searches(rows: tuple[SearchLine, ...]) -> list[str]:
    from ..tools.words import ratio_text

    going = table(
        [
            Column("when", [ago(row.updated_at) for row in rows], right=True),
            Column("search", [shorten(row.search_id, 14) for row in rows]),
            Column("task", [shorten(row.task, 16) for row in rows]),
            Column("state", [_state(row) for row in rows]),
            Column("best S", ["" if row.best is None else ratio_text(row.best) for row in rows], right=True),
            Column("measured", [str(row.measured) for row in rows], right=True),
            Column("device", [shorten(device_words(row.device), 16) for row in rows], drop=2),
            Column("policy", [row.policy for row in rows], drop=1),
        ]
    )
    return [bold("searches"), *going.splitlines()]


def _state(row: SearchLine) -> str:
    return row.state if row.worked_on or row.state not in ("working", "stopping") else "worker gone"


def _forecasts(rows: tuple[ForecastLine, ...]) -> list[str]:
    from ..tools.words import ratio_text, span_text

    said = table(
        [
            Column("when", [ago(row.created_at) for row in rows], right=True),
            Column("kernel", [shorten(row.name, _NAME) for row in rows]),
            Column("S", [ratio_text(row.speedup) for row in rows], right=True),
            Column("80% interval", [span_text(row.low, row.high, short=True) for row in rows]),
            Column("correct", [f"{row.p_correct:.0%}" for row in rows], right=True),
            Column("decision", [decision_words(row) for row in rows]),
            Column("forecaster", [shorten(row.forecaster, 20) for row in rows], drop=1),
            Column("task", [row.task for row in rows], drop=2),
            Column("device", [row.device for row in rows], drop=3),
        ]
    )
    return [bold("last forecasts"), *said.splitlines()]


def _measurements(now: Status) -> list[str]:
    from ..tools.words import ratio_text, time_text

    rows = now.measurements
    if not rows:
        return [bold("last measurements"), dim("  none yet: kforecast measure FILE")]
    recent = table(
        [
            Column("when", [ago(row.created_at) for row in rows], right=True),
            Column("kernel", [shorten(row.name, _NAME) for row in rows]),
            Column("task", [row.task for row in rows], drop=2),
            Column("verdict", [verdict_words(row) for row in rows]),
            Column("S", [ratio_text(row.speedup) for row in rows], right=True),
            Column("time", [time_text(row.time_us) for row in rows], right=True),
            Column("device", [row.device for row in rows], drop=3),
            Column("id", [row.measurement_id for row in rows], drop=1),
        ]
    )
    return [bold("last measurements"), *recent.splitlines()]


def verdict_words(row: MeasurementLine) -> str:
    """A measurement's verdict, or where it is `ok` and was compared, the comparison."""
    word = row.verdict if row.comparison == "none" else row.comparison
    return f"{word} (quarantined)" if row.quarantined else word


def device_words(device: str) -> str:
    """A device's name; of a replay without the folders."""
    kind, _, path = device.partition(":")
    return f"{kind}:{path.rpartition('/')[2]}" if kind == "replay" else device


def decision_words(row: ForecastLine) -> str:
    """What a forecast led to."""
    return row.decision or "no decision"


def ago(moment: str | None) -> str:
    """How long ago a UTC moment was: `12 s`, `5 min`, `3 h`, else its date."""
    if moment is None:
        return ""
    then = datetime.fromisoformat(moment)
    seconds = (datetime.now(UTC) - then).total_seconds()
    for limit, scale, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{max(0, seconds) / scale:.0f} {unit}"
    return then.date().isoformat()
