"""Scores of bin probabilities on timed rows: accuracy, off by one, Brier, NLL, CRPS, direction."""

from __future__ import annotations

import numpy as np

from .. import density
from .rows import Rows

_LEAST_P = 1e-6
"""Floor of a probability under the logarithm: one bin called impossible must not make a whole score infinite."""


def accuracy(rows: Rows) -> float:
    """Share whose most probable bin is the true one (ties: the lower bin)."""
    return _mean(rows.p_bins.argmax(axis=1) == rows.bin)


def off_by_one(rows: Rows) -> float:
    """Share whose most probable bin is the true one or its neighbour."""
    return _mean(np.abs(rows.p_bins.argmax(axis=1) - rows.bin) <= 1)


def brier(rows: Rows) -> float:
    """Half the squared distance to the true bin's indicator, 0..1 (Brier's sum over the classes, halved)."""
    truth = np.eye(rows.p_bins.shape[1])[rows.bin]
    return _mean(((rows.p_bins - truth) ** 2).sum(axis=1) / 2)


def nll(rows: Rows) -> float:
    """Mean of -ln P(true bin), nats."""
    return _mean(-np.log(np.maximum(_LEAST_P, rows.p_bins[np.arange(len(rows)), rows.bin])))


def crps(rows: Rows) -> float:
    """Mean CRPS of log2 S, octaves (see `density.crps`)."""
    return _mean(density.crps(rows.p_bins, rows.log2)) if len(rows) else float("nan")


def rps(rows: Rows) -> float:
    """Ranked probability score on the 8 bins: mean over the seven inner edges of (P(S at or below it) - whether)²
    (Epstein, 1969). Knows nothing of where in its bin S lies, unlike `crps`."""
    below = np.cumsum(rows.p_bins, axis=1)[:, :-1]
    return _mean((below - (np.arange(below.shape[1]) >= rows.bin[:, None])) ** 2)


def direction(rows: Rows) -> float:
    """Share told on the right side of 1. An exact tie is right either way; a forecast of exactly 1/2 is half right."""
    p = density.p_faster(rows.p_bins)
    right = np.where(p == 0.5, 0.5, (p > 0.5) == (rows.log2 > 0))
    return _mean(np.where(rows.log2 == 0, 1.0, right))


def absolute_error(rows: Rows) -> float:
    """Mean |median forecast - log2 S|, octaves."""
    return _mean(np.abs(density.quantile(rows.p_bins, 0.5) - rows.log2)) if len(rows) else float("nan")


def coverage80(rows: Rows) -> float:
    """Share inside the 80% interval, open as `density.opened` has it (0.8 when calibrated, more where it is open)."""
    if not len(rows):
        return float("nan")
    low, high = density.opened(density.quantile(rows.p_bins, 0.1), density.quantile(rows.p_bins, 0.9))
    return _mean((low <= rows.log2) & (rows.log2 <= high))


def _mean(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> float:
    return float(np.asarray(values, dtype=float).mean()) if len(values) else float("nan")
