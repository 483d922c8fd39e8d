"""What was measured of a task's kernels, in columns only: many rows at once, without reading whole measurements."""

from __future__ import annotations

from dataclasses import dataclass

from .database import Store, Value
from .models import Effort, Verdict


@dataclass(frozen=True)
class Reading:
    """One believed measurement in short. Times in microseconds, geometric means over the timed cases, cold caches."""

    id: str
    """The measurement's."""
    task_name: str
    kernel_id: str
    baseline_id: str | None
    verdict: Verdict
    log2_speedup: float | None
    time_us: float | None
    baseline_us: float | None
    percent_of_floor: float | None
    launch_mode: str
    created_at: str
    censored: int
    """1: stopped early because clearly slower, so that the numbers are rough."""
    effort: Effort
    noise_pct: float | None
    log2_low: float | None
    """Ends of the interval of log2 S; None: unbounded, or no ratio."""
    log2_high: float | None


_COLUMNS = (
    "id, task_name, kernel_id, baseline_id, verdict, log2_speedup, time_us, baseline_us, percent_of_floor, "
    "launch_mode, created_at, censored, effort, noise_pct, log2_low, log2_high"
)


def find(
    store: Store, *, task_id: str | None = None, device: str, device_id: str | None = None, limit: int | None = None
) -> list[Reading]:
    """The believed measurements on one device, of one task if given, newest first; limit None: all.

    device: as the user names it. device_id: the physical device, which then decides; None where it is not known.
    """
    where, parameters = ["quarantine IS NULL"], list[Value]()
    for column, value in (
        ("task_id", task_id),
        ("device", device if device_id is None else None),
        ("device_id", device_id),
    ):
        if value is not None:
            where.append(f"{column} = ?")
            parameters.append(value)
    rows = store.read(
        f"SELECT {_COLUMNS} FROM measurements WHERE {' AND '.join(where)} ORDER BY created_at DESC, seq DESC LIMIT ?",
        (*parameters, -1 if limit is None else limit),
    )
    return [Reading(*row) for row in rows]
