"""Quarantined measurements: kept, believed by nobody, until a person clears one."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..store import kernels, measurements
from ..store.database import Store
from ..store.errors import InputError
from ..store.faults import StoreMissing
from ..store.models import Measurement
from .filters import check_task


class QuarantineLine(BaseModel):
    """One quarantined measurement in short. time_us: microseconds, cold caches."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    measurement_id: str
    kernel_id: str
    name: str
    task: str
    device: str
    reason: str
    speedup: float | None
    time_us: float | None
    percent_of_floor: float | None
    created_at: str


def quarantined(*, task: str | None = None, device: str | None = None, limit: int | None = 50) -> list[QuarantineLine]:
    """The quarantined measurements, newest first; none where there is no store yet.

    Raises InputError for a task that there is not.
    """
    try:
        store = Store.open_readonly()
    except StoreMissing:
        return []
    with store:
        check_task(store, task)
        found = measurements.find(store, task=task, device=device, quarantined=True, limit=limit)
        return [_line(store, measurement) for measurement in found]


def clear(measurement_id: str, path: Path | None = None) -> QuarantineLine:
    """Believe a quarantined measurement from now on; what it was in quarantine for is in the answer.

    path: of the store; None is the user's. Raises InputError for an id that is no quarantined measurement's.
    """
    with Store.open(path) as store:
        found = measurements.get(store, measurement_id)
        if found is None or found.quarantine is None:
            what = "there is no measurement with that id" if found is None else "that measurement is not in quarantine"
            step = "`kforecast quarantine list` lists those that are."
            raise InputError(what, value=measurement_id, next_step=step)
        line = _line(store, found)
        measurements.set_quarantine(store, measurement_id, None)
        return line


def put(measurement_id: str, reason: str, path: Path | None = None) -> QuarantineLine:
    """Have nobody believe a measurement until a person clears it. path: of the store; None is the user's.

    Raises InputError for an unknown id, and for one that is in quarantine already.
    """
    with Store.open(path) as store:
        found = measurements.get(store, measurement_id)
        if found is None or found.quarantine is not None:
            what = "there is no measurement with that id" if found is None else "that measurement is in quarantine"
            raise InputError(what, value=measurement_id, next_step="`kforecast status` lists the recent ones.")
        return _line(store, measurements.set_quarantine(store, measurement_id, reason))


def _line(store: Store, measurement: Measurement) -> QuarantineLine:
    kernel = kernels.get(store, measurement.kernel_id)
    return QuarantineLine(
        measurement_id=measurement.id,
        kernel_id=measurement.kernel_id,
        name=measurement.kernel_id if kernel is None else Path(kernel.name).name,
        task=measurement.task_name,
        device=measurement.device,
        reason=measurement.quarantine or "",
        speedup=measurement.speedup,
        time_us=measurement.time_us,
        percent_of_floor=measurement.percent_of_floor,
        created_at=measurement.created_at,
    )
