"""What the surest answers are worth: risk against coverage, its area, accuracy of the surest share."""

from __future__ import annotations

import math

import numpy as np

from .. import density
from .rows import Array, Rows


def answers(rows: Rows) -> tuple[Array, Array]:
    """(confidence, wrong) of each row's answer, `faster` meaning correct and S > 1; an exact tie is never wrong."""
    wins = rows.p_correct * density.p_faster(rows.p_bins)
    won = rows.ok & (np.nan_to_num(rows.log2, nan=-1.0) > 0)
    tie = rows.ok & (rows.log2 == 0)
    wrong = ((wins > 0.5) != won) & ~tie
    return np.maximum(wins, 1 - wins), wrong.astype(np.float64)


def risk_coverage(rows: Rows) -> tuple[Array, Array]:
    """(coverage, risk), both (n,): share wrong among the surest k of n, k = 1..n. Equally sure ones share theirs."""
    confidence, wrong = answers(rows)
    _, inverse = np.unique(-confidence, return_inverse=True)
    shared = (np.bincount(inverse, weights=wrong) / np.bincount(inverse))[inverse] if len(wrong) else wrong
    order = np.argsort(-confidence, kind="stable")
    count = np.arange(1, len(wrong) + 1)
    return count / max(1, len(wrong)), np.cumsum(shared[order]) / count


def aurc(rows: Rows) -> float:
    """Area under the risk-coverage curve: the mean risk over all coverages (Geifman & El-Yaniv, 2017)."""
    _, risk = risk_coverage(rows)
    return float(risk.mean()) if len(risk) else math.nan


def selective_accuracy(rows: Rows, coverage: float) -> float:
    """Share right among the surest `coverage` (0..1] of the answers, at least one."""
    if not len(rows):
        return math.nan
    _, risk = risk_coverage(rows)
    return float(1 - risk[max(1, math.ceil(coverage * len(risk) - 1e-9)) - 1])
