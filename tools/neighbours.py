"""What the store knows about a question before anybody is asked: the baseline's time, the floor, measured siblings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..store import kernels, measurements, readings
from ..store.database import Store
from ..store.models import Facts, Kernel
from ..store.readings import Reading
from ..surrogate.contract import Sibling
from .places import Place

MOST_SIBLINGS = 8
POOL = 96
"""Kernels that siblings are chosen from, measured last: comparing texts takes time, and newer ideas say more."""
_MOST_READINGS = 2000
_CACHED = 4096
_kernels: dict[str, Kernel] = {}
_facts: dict[str, Facts | None] = {}


@dataclass(frozen=True)
class Known:
    """What is measured of a task on a device. Times in microseconds, geometric means over the timed cases."""

    readings: tuple[Reading, ...]
    """Newest first, of one launch mode."""
    baseline_us: float | None
    floor_us: float | None

    def of_pair(self, kernel_id: str, baseline_id: str) -> Reading | None:
        """The newest reading of a kernel against exactly that baseline; one that is not `ok` counts against any."""
        return next(
            (
                reading
                for reading in self.readings
                if reading.kernel_id == kernel_id and (reading.baseline_id == baseline_id or reading.verdict != "ok")
            ),
            None,
        )

    def can_be_told(self, kernel_id: str, baseline_id: str) -> bool:
        """Whether the pair's S follows from what was measured, directly or through both kernels' times."""
        if self.of_pair(kernel_id, baseline_id) is not None:
            return True
        return self.baseline_us is not None and any(
            reading.kernel_id == kernel_id and reading.time_us is not None for reading in self.readings
        )


def known_of(store: Store, task_id: str, place: Place, baseline_id: str) -> Known:
    """Read what is measured of a task on a device, in the launch mode that the baseline was last measured in."""
    found = readings.find(store, task_id=task_id, device=place.device, device_id=place.device_id, limit=_MOST_READINGS)
    about = [reading for reading in found if baseline_id in (reading.kernel_id, reading.baseline_id)]
    mode = next((reading.launch_mode for reading in (*about, *found)), None)
    kept = tuple(reading for reading in found if reading.launch_mode == mode)
    return Known(kept, _baseline_us(kept, baseline_id), _floor_us(kept))


def _baseline_us(found: Sequence[Reading], baseline_id: str) -> float | None:
    own = (r.time_us for r in found if r.kernel_id == baseline_id and r.verdict == "ok" and not r.censored)
    beside = (r.baseline_us for r in found if r.baseline_id == baseline_id)
    return next((time for time in (*own, *beside) if time is not None), None)


def _floor_us(found: Sequence[Reading]) -> float | None:
    return next(
        (r.time_us * r.percent_of_floor / 100 for r in found if r.time_us and r.percent_of_floor is not None), None
    )


def pool_of(store: Store, known: Known, baseline_id: str, *, most: int = POOL) -> list[Sibling]:
    """The measured kernels of the task as siblings, newest first, one reading a kernel, at most `most`.

    S is the measured one where the kernel was measured against this baseline, else the ratio of the two times.
    """
    best: dict[str, Sibling] = {}
    direct: set[str] = set()
    for reading in known.readings:
        measured = reading.verdict != "ok" or (reading.baseline_id == baseline_id and reading.log2_speedup is not None)
        if reading.kernel_id in direct or (reading.kernel_id in best and not measured):
            continue
        if reading.kernel_id not in best and len(best) >= most:
            continue
        sibling = _sibling(store, reading, known.baseline_us, measured)
        if sibling is not None:
            best[reading.kernel_id] = sibling
            direct |= {reading.kernel_id} if measured else set()
    return list(best.values())


def _sibling(store: Store, reading: Reading, baseline_us: float | None, measured: bool) -> Sibling | None:
    kernel = kernel_of(store, reading.kernel_id)
    if kernel is None:
        return None
    ratio = reading.log2_speedup if measured else None
    if not measured and reading.time_us and baseline_us:
        ratio = math.log2(baseline_us / reading.time_us)
    if reading.verdict == "ok" and ratio is None:
        return None
    return Sibling(
        kernel=kernel,
        verdict=reading.verdict,
        time_us=reading.time_us,
        log2_speedup=ratio if reading.verdict == "ok" else None,
        percent_of_floor=reading.percent_of_floor,
    )


def with_facts(store: Store, siblings: Sequence[Sibling], known: Known) -> tuple[Sibling, ...]:
    """The siblings with the compile facts that were noted when they were measured."""
    newest = {reading.kernel_id: reading.id for reading in reversed(known.readings)}
    return tuple(
        sibling.model_copy(update={"facts": _facts_noted(store, newest[sibling.kernel.id])}) for sibling in siblings
    )


def _facts_noted(store: Store, measurement_id: str) -> Facts | None:
    if measurement_id not in _facts:
        found = measurements.get(store, measurement_id)
        if len(_facts) >= _CACHED:
            _facts.clear()
        _facts[measurement_id] = None if found is None else found.facts
    return _facts[measurement_id]


def kernel_of(store: Store, kernel_id: str) -> Kernel | None:
    """A kernel of the store, kept in memory: an id is the hash of the content, so it cannot come to mean another."""
    found = _kernels.get(kernel_id) or kernels.get(store, kernel_id)
    if found is not None:
        if len(_kernels) >= _CACHED:
            _kernels.clear()
        _kernels[kernel_id] = found
    return found
