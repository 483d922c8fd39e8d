"""Calibration of one forecaster on one device: a temperature and a bias on its log-odds, shrunk toward a prior.

Bins: p' ∝ exp(a · log p + b · m), with m each bin's midpoint in log2 S, so `a` sharpens or flattens and `b` leans
toward faster or slower. P(correct): log-odds' = a · log-odds + b. Both are maximum a posteriori under a normal prior
around the atlas's values, or around the identity; few pairs therefore move little, many pairs decide. The posterior is
concave in (a, b), so Newton's method finds the one maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...store.bins import BINS, bin_of_log2
from ..contract import Reply
from .pairs import Pair

State = Literal["none", "atlas", "local"]
Array = NDArray[np.float64]
LEAST_LOCAL = 10
"""Verified pairs from which a calibration counts as local."""
_FLOOR = 1e-3
"""Weight of the uniform that is mixed in before logarithms: a bin given 0 must be able to come back."""
_SPREAD_BINS = (0.4, 0.3)
_SPREAD_CORRECT = (0.4, 0.8)
"""Standard deviations of the priors of (a, b)."""
_MIDPOINTS: Array = np.array([entry.midpoint_log2 for entry in BINS])
_LEAST_A, _MOST_A = 0.05, 5.0


@dataclass(frozen=True)
class Calibration:
    """How a forecaster's probabilities are to be read on one device. The default is the identity: nothing promised."""

    state: State = "none"
    bins: tuple[float, float] = (1.0, 0.0)
    correct: tuple[float, float] = (1.0, 0.0)
    pairs: int = 0
    """Verified pairs it was fitted on, one a kernel."""

    def apply(self, reply: Reply) -> Reply:
        """The reply with calibrated probabilities; the same reply in state `none`."""
        if self.state == "none":
            return reply
        p_bins = calibrated_bins(np.array([reply.p_bins]), self.bins)[0]
        correct = calibrated_correct(np.array([reply.p_correct]), self.correct)[0]
        return reply.model_copy(update={"p_bins": tuple(map(float, p_bins)), "p_correct": float(correct)})


def calibrated_bins(p_bins: ArrayLike, parameters: tuple[float, float]) -> Array:
    """(n, 8) bin probabilities under (a, b)."""
    scores = parameters[0] * _log_bins(np.asarray(p_bins, dtype=np.float64)) + parameters[1] * _MIDPOINTS
    return _softmax(scores)


def calibrated_correct(p_correct: ArrayLike, parameters: tuple[float, float]) -> Array:
    """(n,) P(correct) under (a, b)."""
    odds = _log_odds(np.asarray(p_correct, dtype=np.float64))
    value: Array = 1 / (1 + np.exp(-(parameters[0] * odds + parameters[1])))
    return value


def fit(pairs: Sequence[Pair], prior: Calibration | None = None, least: int = LEAST_LOCAL) -> Calibration:
    """The calibration from verified pairs, one a kernel, weighted by 1/propensity to their effective number.

    prior: the atlas's calibration of the same forecaster, where there is one. Below `least` pairs it is returned as
    it is, in state `atlas`, or the identity in state `none`.
    """
    base = prior or Calibration()
    if len(pairs) < least:
        return Calibration("none" if prior is None else "atlas", base.bins, base.correct, len(pairs))
    weights = effective_weights([pair.propensity for pair in pairs])
    ok = np.array([pair.ok for pair in pairs])
    odds = _log_odds(np.array([pair.p_correct for pair in pairs]))
    # P(correct) as two classes with scores (0, a · odds + b).
    two = np.stack([np.zeros((len(pairs), 2)), np.stack([odds, np.ones_like(odds)], axis=1)], axis=1)
    correct = _newton(two, ok.astype(int), weights, base.correct, _SPREAD_CORRECT)

    timed = [index for index, pair in enumerate(pairs) if pair.ok and pair.log2_speedup is not None]
    bins = base.bins
    if timed:
        logs = _log_bins(np.array([pairs[index].p_bins for index in timed]))
        features = np.stack([logs, np.broadcast_to(_MIDPOINTS, logs.shape)], axis=2)
        truth = np.array([bin_of_log2(float(pairs[index].log2_speedup or 0.0)).number - 1 for index in timed])
        bins = _newton(features, truth, weights[timed], base.bins, _SPREAD_BINS)
    return Calibration("local", bins, correct, len(pairs))


def effective_weights(propensities: Sequence[float]) -> Array:
    """Weights 1/propensity, scaled so that they sum to the effective sample size (Σw)² / Σw² (Kish, 1965)."""
    weights = 1 / np.asarray(propensities, dtype=np.float64)
    return np.asarray(weights * weights.sum() / (weights**2).sum())


def _newton(
    features: Array, truth: NDArray[np.int_], weights: Array, centre: tuple[float, float], spread: tuple[float, float]
) -> tuple[float, float]:
    """The posterior mode of a softmax with scores features @ (a, b): features (n, classes, 2), truth (n,)."""
    mean = np.array(centre)
    precision = 1 / np.array(spread) ** 2
    theta = mean.copy()
    rows = np.arange(len(truth))

    def objective(point: Array) -> float:
        p = _softmax(features @ point)
        fit = float((weights * np.log(p[rows, truth])).sum())
        return fit - float((precision * (point - mean) ** 2).sum()) / 2

    for _ in range(50):
        p = _softmax(features @ theta)
        expected = np.einsum("nc,ncd->nd", p, features)
        gradient = (weights[:, None] * (features[rows, truth] - expected)).sum(axis=0) - precision * (theta - mean)
        second = np.einsum("n,nc,ncd,nce->de", weights, p, features, features)
        hessian = second - np.einsum("n,nd,ne->de", weights, expected, expected) + np.diag(precision)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while objective(theta + size * step) < objective(theta) and size > 1e-6:
            size /= 2
        theta = theta + size * step
        if float(np.abs(size * step).max()) < 1e-9:
            break
    return float(np.clip(theta[0], _LEAST_A, _MOST_A)), float(theta[1])


def _softmax(scores: Array) -> Array:
    shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def _log_bins(p_bins: Array) -> Array:
    return np.asarray(np.log((1 - _FLOOR) * p_bins + _FLOOR / len(BINS)))


def _log_odds(p: Array) -> Array:
    inside = (1 - _FLOOR) * p + _FLOOR / 2
    return np.asarray(np.log(inside / (1 - inside)))
