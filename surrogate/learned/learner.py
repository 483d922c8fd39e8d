"""Learning one task while it is searched: from every kernel that the search has measured, to those it has not.

log2 S over a common kernel is a Gaussian process over the task's kernels (Rasmussen & Williams, 2006, chapters 2 and
5). Its covariance is the mean of four: by shared text, by features, by marks that only one of two kernels has, and by
tunable values; together they rank better than any one of them. How noisy a reading is, and how far the trained model's
mean is to be trusted, is what makes the measurements so far most likely; with few of them the model is.

P(correct) is the model's for this kernel, and the share of right ones among the measured, the nearer the more.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..contract import Side
from ..density import Array
from .covariance import Shape, distances
from .likeness import Alike, Likeness
from .model import Model

_SHAPE = Shape(shares=(0.25, 0.25, 0.25, 0.25), text=0.3, marks=3.0, features=1.0, tunables=1.5, noise=0.06)
_NOISES = (0.02, 0.06, 0.2)
"""Standard deviations of a reading, over the amplitude's."""
_TRUST = (0.0, 0.5, 1.0)
"""Shares of the trained mean."""
_PRIOR_COUNT = 4.0
"""Measurements that the amplitude known beforehand counts for."""
_OFFSET_VARIANCE = 400.0
_PRIOR_P = 0.8
_PRIOR_WEIGHT = 2.0
_NEAR_TUNABLES = 4.0
_LEAST_FITTED = 4
_AMPLITUDE = 0.5


@dataclass(frozen=True)
class Seen:
    """A measured kernel. log2: of S over a kernel that is the same for all; None where it is not right."""

    side: Side
    log2: float | None


@dataclass(frozen=True)
class Guess:
    """What is to be expected of a kernel: log2 S over the common kernel, given correct, and P(correct)."""

    mean: float
    sd: float
    p_correct: float


@dataclass(frozen=True)
class _Shape:
    """noise: of a reading, over the amplitude; trust: share of the trained mean; amplitude: octaves."""

    noise: float
    trust: float
    amplitude: float


@dataclass(frozen=True)
class _Table:
    """n kernels: trained means of log2 S up to a constant (n,), features in standard deviations (n, d), likeness."""

    mean: Array
    standard: Array
    alike: Alike

    def covariance(self, rows: slice, columns: slice) -> Array:
        """The covariance of some with others, for amplitude 1."""
        distance = distances(self.standard[rows], self.standard[columns])
        return _SHAPE.covariance(self.alike.pairs[:, rows, columns], distance)


class Learner:
    """model: trained on other tasks; None: nothing is known beforehand. Threads may share it."""

    def __init__(self, model: Model | None) -> None:
        self._model = model
        self._likeness = Likeness()
        self._shapes: dict[tuple[str, ...], _Shape] = {}
        self._turn = threading.Lock()

    def guesses(self, seen: Sequence[Seen], candidates: Sequence[Side]) -> list[Guess]:
        """What the measured kernels let expect of others. The result depends on the arguments alone."""
        with self._turn:
            return self._guesses(seen, candidates)

    def _guesses(self, seen: Sequence[Seen], candidates: Sequence[Side]) -> list[Guess]:
        right = [one for one in seen if one.log2 is not None]
        sides = [*(one.side for one in right), *candidates]
        table = self._table(sides)
        y = np.array([one.log2 for one in right], dtype=float)
        shape = self._shape(right, table, y)
        means, sds = _posterior(table, y, shape)
        chances = self._p_correct(seen, candidates)
        return [Guess(float(m), float(s), p) for m, s, p in zip(means, sds, chances, strict=True)]

    def _table(self, sides: Sequence[Side]) -> _Table:
        alike = self._likeness.of(sides)
        if self._model is None:
            spread = alike.vectors.std(axis=0)
            standard = (alike.vectors - alike.vectors.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
            return _Table(np.zeros(len(sides)), standard, alike)
        standard = self._model.standard(alike.vectors)
        return _Table(-(standard @ np.array(self._model.weights)), standard, alike)  # weights are of log2 time

    def _shape(self, right: Sequence[Seen], table: _Table, y: Array) -> _Shape:
        """The likeliest shape for the first so many measured, so many being a step of a fixed ladder."""
        count = _rung(len(right))
        trained = self._model is not None
        known = _AMPLITUDE if self._model is None else self._model.amplitude
        if count < _LEAST_FITTED:
            return _Shape(_NOISES[1], float(trained), known)
        key = tuple(f"{one.side.kernel.id} {one.log2}" for one in right[:count])
        if key not in self._shapes:
            self._shapes.clear()
            self._shapes[key] = _likeliest(table, y[:count], known, trained)
        return self._shapes[key]

    def _p_correct(self, seen: Sequence[Seen], candidates: Sequence[Side]) -> list[float]:
        count = len(seen)
        alike = self._likeness.of([*(one.side for one in seen), *candidates])
        rest = alike.vectors[count:]
        own = [_PRIOR_P if self._model is None else self._model.p_correct(features) for features in rest]
        _, different, apart = alike.pairs[:, count:, :count]
        near = np.exp(-different / _SHAPE.marks - apart / _NEAR_TUNABLES)
        right = np.array([one.log2 is not None for one in seen], dtype=float)
        found = (_PRIOR_WEIGHT * np.array(own) + near @ right) / (_PRIOR_WEIGHT + near.sum(axis=1))
        compiles = [side.facts is None or side.facts.ok for side in candidates]
        return [float(p) if fine else 0.0 for p, fine in zip(found, compiles, strict=True)]


def _rung(count: int) -> int:
    """The largest step of the ladder 1, 2, 3, 4, 6, 8, 11, … (a quarter more each time) that is not above `count`."""
    step = min(count, 1)
    while (following := step + 1 + step // 4) <= count:
        step = following
    return step


def _likeliest(table: _Table, y: Array, known: float, trained: bool) -> _Shape:
    """The shape of greatest marginal likelihood, the amplitude in closed form, shrunk to the one known beforehand."""
    count = len(y)
    best: tuple[float, _Shape] | None = None
    rows = slice(0, count)
    covariance = table.covariance(rows, rows) + _OFFSET_VARIANCE
    for noise in _NOISES:
        factor = np.linalg.cholesky(covariance + np.eye(count) * noise**2)
        logs = 2 * float(np.log(np.diag(factor)).sum())
        for trust in _TRUST if trained else (0.0,):
            rest = y - trust * table.mean[rows]
            half = np.linalg.solve(factor, rest - rest.mean())
            variance = (_PRIOR_COUNT * known**2 + float(half @ half)) / (_PRIOR_COUNT + count)
            score = -0.5 * ((_PRIOR_COUNT + count) * math.log(variance) + logs)
            if best is None or score > best[0]:
                best = score, _Shape(noise, trust, math.sqrt(variance))
    assert best is not None, "the grid is not empty"
    return best[1]


def _posterior(table: _Table, y: Array, shape: _Shape) -> tuple[Array, Array]:
    """Means and standard deviations of those that were not measured, (m,) each."""
    count = len(y)
    known, rest = slice(0, count), slice(count, len(table.mean))
    prior = shape.trust * table.mean
    own = np.full(len(table.mean) - count, shape.amplitude)
    if not count:
        return prior[rest] - prior[rest].mean(), own
    y = y - prior[known]
    middle = y.mean()
    gram = table.covariance(known, known) + _OFFSET_VARIANCE
    cross = table.covariance(known, rest) + _OFFSET_VARIANCE
    solved = np.linalg.solve(gram + np.eye(count) * shape.noise**2, cross)
    means = prior[rest] + middle + solved.T @ (y - middle)
    variance = 1.0 + _OFFSET_VARIANCE - (cross * solved).sum(axis=0)
    return means, shape.amplitude * np.sqrt(np.maximum(variance, 1e-8))
