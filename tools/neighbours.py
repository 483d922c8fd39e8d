"""What the store knows about a question before anybody is asked: the baseline's time, the floor, measured siblings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..store import kernels, measurements, readings
from ..store.database import Store
from ..store.models import Facts, Kernel
from ..store.readings import Reading
from ..surrogate.contract import Sibling
from .places import Place
from .ratios import Ratio, Ratios, surest_time

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

    @cached_property
    def _ratios(self) -> Ratios:
        return Ratios(self.readings)

    @cached_property
    def newest(self) -> dict[str, Reading]:
        """The newest reading of each kernel, in that order: whether it is right is as it was found last.

        One that it was the baseline of counts too: a ratio is taken over nothing but a right one.
        """
        found: dict[str, Reading] = {}
        for reading in self.readings:
            found.setdefault(reading.kernel_id, reading)
            if reading.baseline_id is not None and reading.log2_speedup is not None:
                found.setdefault(reading.baseline_id, reading)
        return found

    def ratio(self, kernel_id: str, baseline_id: str) -> Ratio | None:
        """Measured log2 S of one kernel over another, of the pair itself or through common baselines; or None."""
        return self._ratios.of(kernel_id, baseline_id)

    def of_pair(self, kernel_id: str, baseline_id: str) -> str | None:
        """The measurement of exactly that pair that counts most; of a kernel found not `ok`, which fails against any
        baseline, the newest."""
        newest = self.newest.get(kernel_id)
        if newest is not None and newest.verdict != "ok":
            return newest.id
        ratio = self.ratio(kernel_id, baseline_id)
        return ratio.of[0] if ratio is not None and len(ratio.of) == 1 else None

    def time_us(self, kernel_id: str) -> float | None:
        """A kernel's time in the reading to go by."""
        own = [(r, r.time_us) for r in self.readings if r.kernel_id == kernel_id and r.verdict == "ok"]
        return surest_time([(reading, time) for reading, time in own if time is not None])

    def can_be_told(self, kernel_id: str, baseline_id: str) -> bool:
        """Whether the pair's S follows from what was measured: of pairs, or of both kernels' times."""
        if self.of_pair(kernel_id, baseline_id) is not None:
            return True
        if kernel_id != baseline_id and self.ratio(kernel_id, baseline_id) is not None:
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
    times = [
        (r, r.time_us if r.kernel_id == baseline_id else r.baseline_us)
        for r in found
        if (r.kernel_id == baseline_id and r.verdict == "ok" and not r.censored) or r.baseline_id == baseline_id
    ]
    return surest_time([(reading, time) for reading, time in times if time is not None])


def _floor_us(found: Sequence[Reading]) -> float | None:
    return next(
        (r.time_us * r.percent_of_floor / 100 for r in found if r.time_us and r.percent_of_floor is not None), None
    )


def pool_of(store: Store, known: Known, baseline_id: str, *, most: int = POOL) -> list[Sibling]:
    """The measured kernels of the task as siblings, those measured last first, at most `most`.

    S follows from measured pairs (see `ratios`); only where no chain of them leads to the baseline is it the ratio of
    two times of different runs, and marked so. Times and shares of the floor are put on the baseline's scale.
    """
    found: list[Sibling] = []
    for kernel_id, newest in known.newest.items():
        if len(found) >= most:
            break
        kernel = kernel_of(store, kernel_id)
        sibling = None if kernel is None else _sibling(kernel, newest, known, baseline_id)
        if sibling is not None:
            found.append(sibling)
    return found


def _sibling(kernel: Kernel, newest: Reading, known: Known, baseline_id: str) -> Sibling | None:
    if newest.verdict != "ok":
        return Sibling(kernel=kernel, verdict=newest.verdict)
    ratio, time = known.ratio(kernel.id, baseline_id), known.time_us(kernel.id)
    log2 = None if ratio is None else ratio.log2
    if log2 is None:
        if not (time and known.baseline_us):
            return None
        log2 = math.log2(known.baseline_us / time)
    elif known.baseline_us:
        time = known.baseline_us / 2.0**log2
    return Sibling(
        kernel=kernel,
        time_us=time,
        log2_speedup=log2,
        log2_low=None if ratio is None or math.isinf(ratio.below) else ratio.low,
        log2_high=None if ratio is None or math.isinf(ratio.above) else ratio.high,
        unpaired=ratio is None,
        percent_of_floor=100 * known.floor_us / time if known.floor_us and time else None,
    )


def with_facts(store: Store, siblings: Sequence[Sibling], known: Known) -> tuple[Sibling, ...]:
    """The siblings with the compile facts that were noted when they were measured."""
    newest = {reading.kernel_id: reading.id for reading in reversed(known.readings)}
    return tuple(
        sibling.model_copy(update={"facts": _facts_noted(store, newest[sibling.kernel.id])})
        if sibling.kernel.id in newest
        else sibling
        for sibling in siblings
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
