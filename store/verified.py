"""Forecasts beside what was measured afterwards of the same pair on the same device."""

from __future__ import annotations

import json
from dataclasses import dataclass

from . import forecasts, measurements
from .database import Store, Value
from .models import Decision, Forecast, Measurement
from .rows import N, Table

_SAME_PAIR = "m.kernel_id = f.kernel_id AND (m.baseline_id = f.baseline_id OR m.verdict <> 'ok')"
"""A kernel that is not `ok` fails against every baseline."""
_JOINED = """
SELECT forecast_id, measurement_id FROM (
  SELECT f.id AS forecast_id, m.id AS measurement_id, f.created_at AS made,
    row_number() OVER (PARTITION BY f.id ORDER BY m.created_at DESC, m.seq DESC) AS age
  FROM forecasts AS f JOIN measurements AS m ON {same} AND {device} AND m.created_at > f.created_at
  WHERE f.device = ? AND {forecaster} AND m.quarantine IS NULL
    AND NOT EXISTS (SELECT 1 FROM measurements AS m WHERE {same} AND {device} AND m.created_at <= f.created_at)
) WHERE age = 1 ORDER BY made, forecast_id
"""


@dataclass(frozen=True)
class Verified:
    """One forecast, the decision it led to, and the newest believed measurement after it."""

    forecast: Forecast
    decision: Decision | None
    measurement: Measurement


def verified(
    store: Store, *, device: str, device_id: str | None = None, forecaster: str | None = None
) -> list[Verified]:
    """The verified forecasts of a forecaster (None: of all) on a device, oldest first.

    A forecast made when the pair had been measured already, believed or not, is left out: its author could know.
    device_id: the physical device, which then decides; None where it is not known.
    """
    on = "m.device = f.device" if device_id is None else "m.device_id = ?"
    whose = "true" if forecaster is None else "f.forecaster = ?"
    parameters: list[Value] = [*([device_id] if device_id else []), device, *([forecaster] if forecaster else [])]
    parameters += [device_id] if device_id else []
    with store.snapshot():
        rows = store.read(_JOINED.format(same=_SAME_PAIR, device=on, forecaster=whose), parameters)
        chosen = [row["forecast_id"] for row in rows]
        made = {noun.id: noun for noun in _find(store, forecasts.TABLE, "id", chosen)}
        measured = [row["measurement_id"] for row in rows]
        found = {noun.id: noun for noun in _find(store, measurements.TABLE, "id", measured)}
        decided = {noun.forecast_id: noun for noun in _find(store, forecasts.DECISIONS, "forecast_id", chosen)}
    return [
        Verified(made[row["forecast_id"]], decided.get(row["forecast_id"]), found[row["measurement_id"]])
        for row in rows
    ]


def _find(store: Store, table: Table[N], column: str, values: list[str]) -> list[N]:
    """The nouns whose column holds one of the values, in the order they were saved."""
    return table.find(
        store, [f"{column} IN (SELECT value FROM json_each(?))"], [json.dumps(values)], order="seq", limit=None
    )


def forecaster_before(store: Store, *, device: str, prefix: str) -> str | None:
    """The forecaster of the newest forecast on a device whose name begins with `prefix`, or None."""
    row = store.read_one(
        "SELECT forecaster FROM forecasts WHERE device = ? AND substr(forecaster, 1, ?) = ? "
        "ORDER BY created_at DESC, seq DESC LIMIT 1",
        (device, len(prefix), prefix),
    )
    return None if row is None else str(row["forecaster"])


def before(store: Store, measurement: Measurement) -> Verified | None:
    """The newest forecast of a measurement's pair made before it on a device of that name, or None."""
    row = store.read_one(
        "SELECT * FROM forecasts WHERE kernel_id = ? AND baseline_id IS ? AND device = ? AND created_at < ? "
        "ORDER BY created_at DESC, seq DESC LIMIT 1",
        (measurement.kernel_id, measurement.baseline_id, measurement.device, measurement.created_at),
    )
    if row is None:
        return None
    forecast = forecasts.TABLE.noun_of(row)
    decided = forecasts.decisions(store, forecast.id, limit=1)
    return Verified(forecast, decided[0] if decided else None, measurement)
