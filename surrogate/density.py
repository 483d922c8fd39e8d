"""The distribution of log2 S that 8 bin probabilities stand for: uniform inside each bin, a piecewise linear CDF.

The two open bins end one octave beyond their edge (their midpoint in the bin table is half an octave beyond), so the
support is [-3, 3]. Uniform is the least one can add to what the forecaster said; a slope inside a bin would move the
median only where the neighbours' bins already do. Mirroring the bins mirrors the distribution.

Where an open bin ends is ours, not the forecaster's: who puts 0.87 above 4 has not said that S stays below 8. So an
interval whose end lies in an open bin is open there (`opened`), wherever intervals are told or held to what came.

Arrays: `p_bins` is (8,) or (n, 8), rows sum to 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..store.bins import BINS, LOG2_EDGES

Array = NDArray[np.float64]

KNOTS: Array = np.array(
    [2 * BINS[0].midpoint_log2 - LOG2_EDGES[0], *LOG2_EDGES, 2 * BINS[-1].midpoint_log2 - LOG2_EDGES[-1]]
)
"""The 9 ends of the bins in log2 S, tails included."""
_WIDTHS: Array = np.diff(KNOTS)
_SLACK = 1e-12
FASTER = tuple(index for index, entry in enumerate(BINS) if entry.log2_low >= 0)
"""Indices (0-based) of the bins in which the candidate is faster."""


def p_faster(p_bins: ArrayLike) -> Array:
    """P(S > 1) given correct, (n,) or a 0-d array."""
    share: Array = np.asarray(p_bins, dtype=np.float64)[..., FASTER[0] :].sum(axis=-1)
    return share


def _cumulative(p_bins: ArrayLike) -> Array:
    """The CDF at the 9 knots, (n, 9)."""
    p = np.atleast_2d(np.asarray(p_bins, dtype=np.float64))
    cumulative = np.concatenate([np.zeros((len(p), 1)), np.cumsum(p, axis=1)], axis=1)
    cumulative[:, -1] = 1.0
    below: Array = np.minimum(cumulative, 1.0)
    return below


def cdf(p_bins: ArrayLike, log2_speedup: ArrayLike) -> Array:
    """P(log2 S <= x) for each row, (n,): one x a row, or one x for all."""
    cumulative = _cumulative(p_bins)
    rows = np.arange(len(cumulative))
    x = np.clip(np.broadcast_to(np.asarray(log2_speedup, dtype=np.float64), rows.shape), KNOTS[0], KNOTS[-1])
    number = np.clip(np.searchsorted(KNOTS, x, side="right") - 1, 0, len(_WIDTHS) - 1)
    start, end = cumulative[rows, number], cumulative[rows, number + 1]
    return np.asarray(start + (end - start) * (x - KNOTS[number]) / _WIDTHS[number])


def quantile(p_bins: ArrayLike, level: float) -> Array:
    """log2 S below which the share `level` (0 < level < 1) lies, (n,). Over an empty bin: the middle of the gap."""
    cumulative = _cumulative(p_bins)
    rows = np.arange(len(cumulative))
    low = (cumulative < level - _SLACK).sum(axis=1)
    high = (cumulative <= level + _SLACK).sum(axis=1)
    start, end = cumulative[rows, low - 1], cumulative[rows, low]
    share = (level - start) / np.where(end > start, end - start, 1.0)
    inside = KNOTS[low - 1] + share * _WIDTHS[low - 1]
    # Where one knot, or the whole of a gap, lies at the level, `high` lies beyond `low`.
    return np.asarray(np.where(high > low, (KNOTS[low] + KNOTS[high - 1]) / 2, inside))


def opened(low: ArrayLike, high: ArrayLike) -> tuple[Array, Array]:
    """An interval of log2 S between two quantiles, (n,) or 0-d each: an end in an open bin becomes infinite.

    An end at 1/4 or 4 itself is in no open bin: beyond it lies no more than the share that the interval leaves out.
    """
    ends = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    below, above = LOG2_EDGES[0] - _SLACK, LOG2_EDGES[-1] + _SLACK
    return np.where(ends[0] < below, -np.inf, ends[0]), np.where(ends[1] > above, np.inf, ends[1])


def mean(p_bins: ArrayLike) -> Array:
    """The mean of log2 S, (n,)."""
    return np.atleast_2d(np.asarray(p_bins, dtype=np.float64)) @ ((KNOTS[:-1] + KNOTS[1:]) / 2)


def crps(p_bins: ArrayLike, log2_speedup: ArrayLike) -> Array:
    """Continuous ranked probability score in octaves, (n,): the integral of (F(x) - 1[x >= truth])² over x.

    Closed form over the pieces on which F is linear; a truth outside the support adds its distance to the support.
    Gneiting & Raftery, JASA 102 (2007), section 4.2.
    """
    cumulative = _cumulative(p_bins)
    truth = np.broadcast_to(np.asarray(log2_speedup, dtype=np.float64), (len(cumulative),))
    inside = np.clip(truth, KNOTS[0], KNOTS[-1])
    # Each bin falls into a part left of the truth, where F² counts, and a part right of it, where (1 - F)² does.
    split = np.clip(inside[:, None], KNOTS[:-1], KNOTS[1:])
    left, right = split - KNOTS[:-1], KNOTS[1:] - split
    start, end = cumulative[:, :-1], cumulative[:, 1:]
    middle = start + (end - start) * left / _WIDTHS
    below = left * (start**2 + start * middle + middle**2) / 3
    above = right * ((1 - middle) ** 2 + (1 - middle) * (1 - end) + (1 - end) ** 2) / 3
    score: Array = (below + above).sum(axis=1) + np.abs(truth - inside)
    return score
