"""Measurements in the store. A row is never changed, but for its quarantine."""

from __future__ import annotations

from .database import Store, Value
from .errors import InputError
from .models import Measurement, Verdict
from .rows import Table

TABLE = Table(
    "measurements",
    Measurement,
    (
        "task_name",
        "device",
        "verdict",
        "comparison",
        "log2_speedup",
        "log2_low",
        "log2_high",
        "time_us",
        "time_warm_us",
        "baseline_us",
        "percent_of_floor",
        "noise_pct",
        "kernel_id",
        "baseline_id",
        "task_id",
        "device_id",
        "lane",
        "launch_mode",
        "effort",
        "reason",
        "censored",
        "device_seconds",
        "quarantine",
        "request_id",
    ),
    {"speedup": lambda measurement: measurement.speedup},
)

_NEWEST_FIRST = "created_at DESC, seq DESC"
_BELIEVED = "quarantine IS NULL"


def save(store: Store, measurement: Measurement) -> None:
    """Save a measurement, whose task and kernels must be there already. Raises StoreError for an id that is taken.

    An answer to a request is saved by `requests.complete` instead.
    """
    with store.write() as db:
        TABLE.insert(db, measurement)


def get(store: Store, measurement_id: str) -> Measurement | None:
    """The measurement with that id, or None."""
    return TABLE.get(store, measurement_id)


def latest(
    store: Store,
    kernel_id: str,
    *,
    baseline_id: str | None = None,
    device_id: str,
    verdict: Verdict | None = None,
) -> Measurement | None:
    """The newest believed measurement of a kernel against exactly that baseline (None: without one) on a physical
    device, with that verdict if one is given; or None."""
    where = ["kernel_id = ?", "baseline_id IS ?", "device_id = ?", _BELIEVED]
    parameters: list[Value] = [kernel_id, baseline_id, device_id]
    if verdict is not None:
        where.append("verdict = ?")
        parameters.append(verdict)
    found = TABLE.find(store, where, parameters, order=_NEWEST_FIRST, limit=1)
    return found[0] if found else None


def find(
    store: Store,
    *,
    task: str | None = None,
    device: str | None = None,
    kernel: str | None = None,
    baseline: str | None = None,
    verdict: Verdict | None = None,
    since: str | None = None,
    quarantined: bool | None = None,
    limit: int | None = 50,
) -> list[Measurement]:
    """Measurements that meet every filter given, newest first.

    task: name or id; device: as the user names it, or the physical device's id; kernel, baseline: ids; since: UTC text,
    that moment included; quarantined: only those, or only the believed; limit: None for all.
    """
    where: list[str] = []
    parameters: list[Value] = []
    for condition, value in (
        ("(task_name = ? OR task_id = ?)", task),
        ("(device = ? OR device_id = ?)", device),
        ("kernel_id = ?", kernel),
        ("baseline_id = ?", baseline),
        ("verdict = ?", verdict),
        ("created_at >= ?", since),
    ):
        if value is not None:
            where.append(condition)
            parameters.extend([value] * condition.count("?"))
    if quarantined is not None:
        where.append("quarantine IS NOT NULL" if quarantined else _BELIEVED)
    return TABLE.find(store, where, parameters, order=_NEWEST_FIRST, limit=limit)


def best(store: Store, *, task_id: str, device_id: str, launch_mode: str | None = None) -> Measurement | None:
    """The fastest believed, right and fully timed measurement of a task on a physical device, or None.

    Only the newest such measurement of each kernel counts, so a lucky old reading does not win for ever.
    """
    where = ["verdict = 'ok'", "NOT censored", "time_us IS NOT NULL", _BELIEVED, "task_id = ?", "device_id = ?"]
    parameters: list[Value] = [task_id, device_id]
    if launch_mode is not None:
        where.append("launch_mode = ?")
        parameters.append(launch_mode)
    row = store.read_one(
        f"""SELECT * FROM (
              SELECT *, row_number() OVER (PARTITION BY kernel_id, launch_mode ORDER BY {_NEWEST_FIRST}) AS age
              FROM measurements WHERE {" AND ".join(where)}
            ) WHERE age = 1 ORDER BY time_us, seq LIMIT 1""",
        parameters,
    )
    return None if row is None else TABLE.noun_of(row)


def set_quarantine(store: Store, measurement_id: str, reason: str | None) -> Measurement:
    """Put a measurement into quarantine, or clear it with None, and return it. Raises InputError for an unknown id."""
    with store.write() as db:
        db.execute(
            "UPDATE measurements SET quarantine = ?, seq = (SELECT max(seq) + 1 FROM measurements) WHERE id = ?",
            (reason, measurement_id),
        )
        found = get(store, measurement_id)
    if found is None:
        raise InputError(
            "The store has no measurement with that id",
            value=measurement_id,
            next_step="`kforecast status` lists the recent ones.",
        )
    return found
