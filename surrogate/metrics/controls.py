"""Controls: forecasters that know nothing, and truths that belong to others. A claim is a difference from these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...store.bins import BINS, bin_of_log2
from ..contract import Reply
from .rows import Rows, Truth

TIE_BIN = 4


def base_rate(training: Sequence[Truth]) -> Reply:
    """How often each bin, and a correct kernel, came up in the training truths, with one virtual uniform row."""
    counts = np.full(len(BINS), 1 / len(BINS))
    for truth in training:
        if truth.log2_speedup is not None:
            counts[bin_of_log2(truth.log2_speedup).number - 1] += 1
    correct = (sum(truth.ok for truth in training) + 0.5) / (len(training) + 1)
    return Reply(p_correct=float(correct), p_bins=tuple(map(float, counts / counts.sum())))


def random_replies(count: int, seed: int) -> list[Reply]:
    """Bin probabilities drawn uniformly from the simplex, and P(correct) from 0..1."""
    rng = np.random.default_rng(seed)
    bins = rng.dirichlet(np.ones(len(BINS)), count)
    return [
        Reply(p_correct=float(correct), p_bins=tuple(map(float, p / p.sum())))
        for p, correct in zip(bins, rng.random(count), strict=True)
    ]


def always_tie() -> Reply:
    """Bin 4, where S = 1 lies, for certain."""
    return Reply(p_correct=1.0, p_bins=tuple(float(entry.number == TIE_BIN) for entry in BINS))


def shuffled(rows: Rows, seed: int) -> Rows:
    """The same forecasts against other rows' truths, permuted within each task."""
    rng = np.random.default_rng(seed)
    order = np.arange(len(rows))
    for task in np.unique(rows.task):
        inside = np.flatnonzero(rows.task == task)
        order[inside] = rng.permutation(inside)
    return replace(rows, ok=rows.ok[order], log2=rows.log2[order], again=rows.again[order])
