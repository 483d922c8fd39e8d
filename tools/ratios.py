"""What the measurements of a task say of S between its kernels, also of two that were never measured side by side.

S is measured in pairs, interleaved, because times drift: of one run to the next by more than kernels differ. So two
kernels are compared through a chain of measured pairs (both against a common baseline, mostly), never through the times
of different runs. Along a chain log2 S adds up and the intervals' halves add in quadrature, as independent errors do.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..store.models import Effort
from ..store.readings import Reading

RANK: dict[Effort, int] = {"quick": 0, "normal": 1, "claim": 2}
"""How much is to be given on a measurement: a claim counts more than a newer quick look."""
_UNBOUNDED = 1e6
"""What an unbounded half of an interval counts for when chains are compared, octaves: any bounded one goes first."""


@dataclass(frozen=True)
class Ratio:
    """log2 S of a kernel over a baseline. below, above: the halves of its 95% interval, octaves; inf: unbounded.

    of: the measurements that it follows from; one for a pair that was measured itself, none for a kernel and itself.
    """

    log2: float
    below: float
    above: float
    of: tuple[str, ...]

    @property
    def low(self) -> float:
        """The interval's lower end, log2 S."""
        return self.log2 - self.below

    @property
    def high(self) -> float:
        return self.log2 + self.above

    @property
    def variance(self) -> float:
        """What chains are compared by: what adds up along one."""
        return min(self.below, _UNBOUNDED) ** 2 + min(self.above, _UNBOUNDED) ** 2

    def turned(self) -> Ratio:
        """Of the baseline over the kernel."""
        return Ratio(-self.log2, self.above, self.below, self.of)

    def then(self, other: Ratio) -> Ratio:
        """Over the baseline's own baseline, `other` being the baseline over that."""
        below, above = math.hypot(self.below, other.below), math.hypot(self.above, other.above)
        return Ratio(self.log2 + other.log2, below, above, (*self.of, *other.of))


SAME = Ratio(0.0, 0.0, 0.0, ())


class Ratios:
    """S between the kernels of one task on one device, from its readings, newest first."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        best: dict[tuple[str, str], Reading] = {}
        for reading in readings:
            if reading.verdict == "ok" and reading.log2_speedup is not None and reading.baseline_id is not None:
                pair = min(reading.kernel_id, reading.baseline_id), max(reading.kernel_id, reading.baseline_id)
                if pair[0] != pair[1] and (pair not in best or _worth(reading) > _worth(best[pair])):
                    best[pair] = reading
        self._edges: dict[str, dict[str, Ratio]] = {}
        for reading in best.values():
            assert reading.baseline_id is not None, "kept only with one"
            ratio = _ratio(reading)
            self._edges.setdefault(reading.kernel_id, {})[reading.baseline_id] = ratio
            self._edges.setdefault(reading.baseline_id, {})[reading.kernel_id] = ratio.turned()
        self._over: dict[str, dict[str, Ratio]] = {}

    def of(self, kernel_id: str, baseline_id: str) -> Ratio | None:
        """S of a kernel over a baseline: of the pair where it was measured, else along the surest chain; or None."""
        if kernel_id != baseline_id and (direct := self._edges.get(kernel_id, {}).get(baseline_id)) is not None:
            return direct
        if baseline_id not in self._over:
            self._over[baseline_id] = self._surest(baseline_id)
        return self._over[baseline_id].get(kernel_id)

    def _surest(self, baseline_id: str) -> dict[str, Ratio]:
        """Of every kernel that a chain leads to, over the baseline: the chains of least variance (Dijkstra)."""
        found: dict[str, Ratio] = {}
        waiting: list[tuple[float, int, str, Ratio]] = [(0.0, 0, baseline_id, SAME)]
        count = 0
        while waiting:
            _, _, name, ratio = heapq.heappop(waiting)
            if name in found:
                continue
            found[name] = ratio
            for neighbour, over in self._edges.get(name, {}).items():
                if neighbour not in found:
                    longer = over.turned().then(ratio)
                    count += 1  # of two equal ones the first found goes first, and ratios need not compare
                    heapq.heappush(waiting, (longer.variance, count, neighbour, longer))
        return found


def surest_time(times: Sequence[tuple[Reading, float]]) -> float | None:
    """Of a kernel's times in several readings, newest first, the one to go by: of most effort, then of least noise."""
    if not times:
        return None
    return max(times, key=lambda one: (RANK[one[0].effort], -_noise(one[0])))[1]


def _noise(reading: Reading) -> float:
    return math.inf if reading.noise_pct is None else reading.noise_pct


def _worth(reading: Reading) -> tuple[bool, int, float]:
    """Of two readings of a pair the worthier stands: not stopped early, more effort, a tighter interval; then newer."""
    ratio = _ratio(reading)
    return not reading.censored, RANK[reading.effort], -ratio.variance


def _ratio(reading: Reading) -> Ratio:
    log2 = reading.log2_speedup
    assert log2 is not None, "kept only with one"
    below = math.inf if reading.log2_low is None else max(0.0, log2 - reading.log2_low)
    above = math.inf if reading.log2_high is None else max(0.0, reading.log2_high - log2)
    return Ratio(log2, below, above, (reading.id,))
