"""Expected calibration error over equal-mass bins, debiased, and the reliability diagram's points."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .. import density
from .rows import Array, Flags, Rows

BINS = 15


@dataclass(frozen=True)
class Point:
    """One bin of a reliability diagram: what was said on average, what happened, of how many."""

    said: float
    happened: float
    count: int


def reliability(p: Array, happened: Flags, bins: int = BINS) -> list[Point]:
    """Points over bins of equal mass, by rising p. Equal p stay in one bin, so that their order cannot matter."""
    order = np.argsort(p, kind="stable")
    points = []
    start = 0
    for number in range(bins):
        end = max(start, round((number + 1) * len(p) / bins))
        while start < end < len(p) and p[order[end]] == p[order[end - 1]]:
            end += 1
        if end > start:
            inside = order[start:end]
            points.append(Point(float(p[inside].mean()), float(happened[inside].mean()), end - start))
        start = end
    return points


def ece(p: Array, happened: Flags, bins: int = BINS, *, debias: bool = True) -> float:
    """Mean |said - happened| over equal-mass bins, weighted by their counts; NaN without rows.

    debias: less the plug-in estimate of what chance adds. Were the gap g of a bin the true one, the gap seen would be
    |N(g, s²)|, whose mean, the folded normal's, exceeds g (Kumar, Liang & Ma, NeurIPS 2019, here in closed form). It
    takes away about half of the bias of a calibrated forecaster and next to nothing of a large error. Never below 0.
    """
    total = 0.0
    for point in reliability(p, happened, bins):
        gap = abs(point.said - point.happened)
        total += point.count * (gap - (_chance(gap, point) if debias else 0.0))
    return max(0.0, total / len(p)) if len(p) else math.nan


def _chance(gap: float, point: Point) -> float:
    # The variance of a bin that came out all one way is not 0: half a count is added to either side.
    rate = (point.happened * point.count + 0.5) / (point.count + 1)
    spread = math.sqrt(rate * (1 - rate) / point.count)
    folded = spread * math.sqrt(2 / math.pi) * math.exp(-((gap / spread) ** 2) / 2)
    return folded + gap * math.erf(gap / (spread * math.sqrt(2))) - gap


def ece_faster(rows: Rows, *, debias: bool = True) -> float:
    """Of P(S > 1), on timed rows."""
    timed = rows.timed
    return ece(density.p_faster(timed.p_bins), timed.log2 > 0, debias=debias)


def ece_bins(rows: Rows, *, debias: bool = True) -> float:
    """Of the most probable of the 8 bins: its probability against how often it is the true one, on timed rows."""
    timed = rows.timed
    return ece(timed.p_bins.max(axis=1), timed.p_bins.argmax(axis=1) == timed.bin, debias=debias)


def ece_correct(rows: Rows, *, debias: bool = True) -> float:
    """Of P(correct), on all rows."""
    return ece(rows.p_correct, rows.ok, debias=debias)
