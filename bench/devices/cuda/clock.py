"""What a pair of events costs: it is part of every reading, and no part of a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class ClockCost:
    """Microseconds that events add to one sample: around a launch in the stream, around a graph of launches; and what
    an empty kernel takes beside them.
    """

    stream_us: float
    graph_us: float
    empty_us: float

    def without(self, reading_us: float, calls: int) -> float:
        """The time of one call, in microseconds, from a sample's time divided by its `calls`.

        What is left of a reading that is hardly more than the cost is the empty kernel: no launch takes less.
        """
        cost = self.stream_us if calls == 1 else self.graph_us / calls
        return max(reading_us - cost, self.empty_us)


def clock_cost(readings: Mapping[int, Sequence[float]]) -> ClockCost:
    """The cost from readings of an empty kernel: per number of calls in a sample (1, and two larger ones that ran as
    graphs), microseconds a call.

    A graph of n empty kernels takes its events' cost and n times the kernel: two sizes give both. The single launch
    then gives its own events' cost.
    """
    few, many = sorted(calls for calls in readings if calls > 1)
    total = {calls: calls * median(readings[calls]) for calls in (1, few, many)}
    empty_us = max((total[many] - total[few]) / (many - few), 0.0)
    return ClockCost(
        stream_us=max(total[1] - empty_us, 0.0),
        graph_us=max(total[few] - few * empty_us, 0.0),
        empty_us=empty_us,
    )
