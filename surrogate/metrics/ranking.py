"""Rank scores: AUROC, Spearman's correlation within tasks, and recovery of the best kernel."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...store.bins import BINS
from .. import density
from .rows import Array, Flags, Rows

_LEAST_IN_TASK = 3
_TOP = 5


def ranks(values: Array) -> Array:
    """Ranks from 1, ties at their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse], dtype=np.float64)


def auroc(score: Array, positive: Flags) -> float:
    """P(a positive scores above a negative), ties count half; NaN without both kinds."""
    hits = int(positive.sum())
    misses = len(positive) - hits
    if not hits or not misses:
        return math.nan
    return float((ranks(score)[positive].sum() - hits * (hits + 1) / 2) / (hits * misses))


def auroc_correct(rows: Rows) -> float:
    """P(correct) against the verdict, on all rows."""
    return auroc(rows.p_correct, rows.ok)


def auroc_faster(rows: Rows) -> float:
    """P(S > 1) against S > 1, on timed rows."""
    timed = rows.timed
    return auroc(density.p_faster(timed.p_bins), timed.log2 > 0)


def auroc_discovery(rows: Rows, log2_least: float) -> float:
    """Finding kernels that are correct and at least 2**log2_least faster (a bin's edge), on all rows."""
    above = [index for index, entry in enumerate(BINS) if entry.log2_low >= log2_least - 1e-9]
    score = rows.p_correct * rows.p_bins[:, above].sum(axis=1)
    return auroc(score, rows.ok & (np.nan_to_num(rows.log2, nan=-np.inf) >= log2_least - 1e-9))


def spearman(one: Array, other: Array) -> float:
    """Spearman's rank correlation; NaN where one side is constant."""
    a, b = ranks(one), ranks(other)
    a, b = a - a.mean(), b - b.mean()
    scale = math.sqrt(float((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / scale if scale > 0 else math.nan


def spearman_by_task(rows: Rows) -> float:
    """Mean over tasks of the correlation of the forecast's mean with log2 S, on timed rows; a constant forecast is 0.

    Tasks with fewer than 3 rows, or without any difference in S, say nothing about order and are left out.
    """
    timed = rows.timed
    values = []
    for task in np.unique(timed.task):
        one = timed.take(timed.task == task)
        if len(one) >= _LEAST_IN_TASK and len(np.unique(one.log2)) > 1:
            value = spearman(density.mean(one.p_bins), one.log2)
            values.append(0.0 if math.isnan(value) else value)
    return float(np.mean(values)) if values else math.nan


def remeasured(rows: Rows) -> Array:
    """log2 S, (n,), of each group's five fastest by their second measurement where they have one; of the others as it
    is. The fastest of many noisy readings is read too fast, and a second reading is not."""
    truth = np.where(rows.ok, rows.log2, np.nan)
    for group in np.unique(rows.group):
        inside = np.flatnonzero((rows.group == group) & ~np.isnan(truth))
        top = inside[_order(truth[inside])[:_TOP]]
        truth[top] = np.where(np.isnan(rows.again[top]), truth[top], rows.again[top])
    return truth


def recovery(rows: Rows, share: float, true_log2: Array | None = None) -> float:
    """Best found over true best, as a ratio of speeds in 0..1, when only the top `share` by forecast is measured.

    By forecast: by P(correct) times 2 to the mean of log2 S. Geometric mean over the groups of candidates that compete;
    at least one candidate a group is measured; a group where nothing measured is ok counts its slowest ok kernel.
    true_log2: log2 S to count with (see `remeasured`), (n,); without it the rows' own.
    """
    truth = np.where(rows.ok, rows.log2 if true_log2 is None else true_log2, np.nan)
    score = rows.p_correct * 2.0 ** density.mean(rows.p_bins)
    logs = []
    for group in np.unique(rows.group):
        inside = np.flatnonzero(rows.group == group)
        if np.isnan(truth[inside]).all():
            continue
        count = max(1, math.ceil(share * len(inside) - 1e-9))
        picked = inside[_order(score[inside])[:count]]
        found = np.nanmax(truth[picked]) if not np.isnan(truth[picked]).all() else np.nanmin(truth[inside])
        logs.append(float(found - np.nanmax(truth[inside])))
    return float(2.0 ** np.mean(logs)) if logs else math.nan


def _order(score: Array) -> NDArray[np.int_]:
    return np.argsort(-score, kind="stable")
