"""The one bin table of S, the speedup of a candidate over its baseline.

Every prompt table, schema name, scorer, midpoint and plot is generated from `BINS`. Each bin is open below and closed
above: S = 1 is bin 4, S = 1.2 is bin 5 (edges of arXiv 2605.31464 as its prompt shows them).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

EDGES: tuple[float, ...] = (0.25, 0.5, 1 / math.sqrt(2), 1.0, math.sqrt(2), 2.0, 4.0)
"""Upper edges of bins 1 to 7, as S; bin 8 has none."""

LOG2_EDGES: tuple[float, ...] = tuple(math.log2(edge) for edge in EDGES)
"""The same edges as log2 S. Computed, not written: log2 of the double nearest √2 is one ulp above 0.5, and S = √2 must
fall into the same bin whichever way it is asked."""

_NAMES = (
    "severe_slowdown",
    "significant_slowdown",
    "moderate_slowdown",
    "minor_slowdown",
    "minor_speedup",
    "significant_speedup",
    "high_speedup",
    "extreme_speedup",
)
EDGE_TEXT = ("1/4", "1/2", "1/√2", "1", "√2", "2", "4")
"""The edges as people read them."""


@dataclass(frozen=True)
class Bin:
    """One bin of S: `number` 1..8, `name` as an identifier, edges in log2 S (open below, closed above)."""

    number: int
    name: str
    log2_low: float
    log2_high: float
    midpoint_log2: float
    """Centre in log2 S; the two open-ended bins take half an octave beyond their edge."""

    @property
    def title(self) -> str:
        """The name as people read it."""
        return self.name.replace("_", " ")

    @property
    def range_text(self) -> str:
        """The range as prompts and plots print it, e.g. `1 < S <= √2`."""
        low = "" if self.number == 1 else f"{EDGE_TEXT[self.number - 2]} < "
        high = "" if self.number == len(_NAMES) else f" <= {EDGE_TEXT[self.number - 1]}"
        return f"{low}S{high}"


def _build() -> tuple[Bin, ...]:
    bins = []
    for index, name in enumerate(_NAMES):
        low = LOG2_EDGES[index - 1] if index > 0 else -math.inf
        high = LOG2_EDGES[index] if index < len(LOG2_EDGES) else math.inf
        if math.isinf(low):
            midpoint = high - 0.5
        elif math.isinf(high):
            midpoint = low + 0.5
        else:
            midpoint = (low + high) / 2
        bins.append(Bin(index + 1, name, low, high, midpoint))
    return tuple(bins)


BINS: tuple[Bin, ...] = _build()


def bin_of_log2(log2_speedup: float) -> Bin:
    """The bin that holds log2 S. Raises ValueError for NaN."""
    if math.isnan(log2_speedup):
        raise ValueError("log2 S is NaN: no bin holds it")
    return BINS[bisect_left(LOG2_EDGES, log2_speedup)]


def bin_of(speedup: float) -> Bin:
    """The bin that holds S > 0. Raises ValueError for S <= 0 or NaN."""
    if not speedup > 0:
        raise ValueError(f"S must be a positive number, got {speedup!r}")
    return bin_of_log2(math.log2(speedup))
