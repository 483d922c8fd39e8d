"""What a measurement is expected to take, from those that were made."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...store.models import Effort

_COST: dict[Effort, float] = {"quick": 1.0, "normal": 3.0, "claim": 20.0}
"""What a measurement takes, relative to `quick`, until there are examples."""


@dataclass(slots=True)
class Durations:
    """GPU seconds of the right kernels' measurements: sums and counts by effort."""

    sums: dict[Effort, tuple[float, int]] = field(default_factory=dict)

    def add(self, effort: Effort, seconds: float) -> None:
        """Another example."""
        total, count = self.sums.get(effort, (0.0, 0))
        self.sums[effort] = (total + seconds, count + 1)

    def mean(self, effort: Effort) -> float:
        """GPU seconds that a measurement of this effort is expected to take; 0 before the first of any effort."""
        if effort in self.sums:
            total, count = self.sums[effort]
            return total / count
        known = [(total / count) / _COST[name] for name, (total, count) in self.sums.items()]
        return _COST[effort] * max(known) if known else 0.0
