"""Training the learned forecaster on measured kernels. numpy only, seconds for a few thousand kernels.

What is learnt must carry over to other tasks. So a task of many kernels or devices counts no more than another, errors
count relative to how much a task's kernels differ, and the covariance is the one under which random draws of so many
kernels as a forecaster may be shown are likeliest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...store.errors import InputError
from ...store.models import Facts, Kernel
from ..density import Array
from .covariance import Shape, distances
from .features import vector
from .likeness import compared
from .model import OFFSET_VARIANCE, Model, evidence

_LEAST_KERNELS = 30
_LEAST_SPREAD = 0.3
"""Octaves; of a group whose times differ less, errors count as if they differed so much."""
_RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
_DRAWS = 10
"""Draws a group."""
_DRAWN = 20
"""Kernels of a draw, at most."""
_FIRST = Shape(shares=(0.25, 0.25, 0.25, 0.25), text=0.3, marks=6.0, features=1.0, tunables=1.5, noise=0.06)
_GRID: dict[str, tuple[Any, ...]] = {
    "noise": (0.01, 0.02, 0.06, 0.15, 0.3),
    "text": (0.1, 0.3, 0.6, 1.2),
    "marks": (3.0, 6.0, 12.0, 24.0, 48.0),
    "features": (0.3, 0.5, 1.0, 2.0),
    "tunables": (0.75, 1.5, 3.0, 6.0),
    "shares": (
        (0.25, 0.25, 0.25, 0.25), (0.4, 0.2, 0.2, 0.2), (0.2, 0.4, 0.2, 0.2), (0.2, 0.2, 0.4, 0.2),
        (0.2, 0.2, 0.2, 0.4), (0.4, 0.4, 0.1, 0.1), (0.1, 0.4, 0.4, 0.1), (0.1, 0.7, 0.1, 0.1), (0.1, 0.1, 0.7, 0.1),
    ),
}  # fmt: skip
_ROUNDS = 2
_AMPLITUDES = 0.015 * 2.0 ** (np.arange(20) / 2)
"""Octaves."""
_FLAT_TASKS = 1.0
"""Tasks that amplitudes all equally likely count for."""
_STEPS = 200
_MOST_OF_TASK = 30
"""Kernels that a task counts for in P(correct), at most."""
_CORRECT_RIDGES = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)


@dataclass(frozen=True)
class Sample:
    """One measured kernel. group: task and device, within which times compare; time_us: None where it is not ok."""

    kernel: Kernel
    group: str
    device_kind: str
    ok: bool
    time_us: float | None = None
    facts: Facts | None = None

    @property
    def timed(self) -> bool:
        return self.ok and self.time_us is not None and self.time_us > 0


@dataclass(frozen=True)
class _Group:
    """The timed kernels of one group: features (n, d), log2 times (n,). weight: one over the groups of its task."""

    task_id: str
    kernels: tuple[Kernel, ...]
    features: Array
    y: Array
    weight: float

    @property
    def centred(self) -> tuple[Array, Array]:
        return self.features - self.features.mean(axis=0), self.y - self.y.mean()

    @property
    def spread(self) -> float:
        """Variance of the times, octaves squared."""
        return max(float(self.y.var()), _LEAST_SPREAD**2)


@dataclass(frozen=True)
class _Draws:
    """s draws of n kernels each: `compared` (3, s, n, n), distances of features (s, n, n), residuals of log2 time
    (s, n), weights (s,)."""

    pairs: Array
    distance: Array
    residual: Array
    weight: Array


def train(samples: Sequence[Sample]) -> Model:
    """The model of these samples. Raises InputError for fewer than 30 timed kernels or a single task.

    Leave-one-task-out error picks the ridges, the marginal likelihood of the residuals the covariance.
    """
    names = sorted({sample.group for sample in samples if sample.timed})
    count = len({sample.kernel.id for sample in samples if sample.timed})
    tasks = len({sample.kernel.task_id for sample in samples if sample.timed})
    if count < _LEAST_KERNELS or tasks < 2:
        raise InputError(
            f"Training takes at least {_LEAST_KERNELS} timed kernels of two tasks",
            value=f"{count} kernels of {tasks} tasks",
            next_step="Measure more kernels, or train on a published atlas.",
        )
    raw = np.array([vector(sample.kernel, sample.facts) for sample in samples])
    mean, spread = raw.mean(axis=0), raw.std(axis=0)
    scale = np.where(spread > 1e-9, spread, 1.0)
    standard = (raw - mean) / scale
    groups = _groups(samples, standard, names)
    weights = _ridge(groups, _best_ridge(groups))
    shape, shares = _fit_covariance(_draws(groups, weights))
    return Model(
        trained_for=tuple(sorted({(sample.kernel.language, sample.device_kind) for sample in samples})),
        mean=tuple(map(float, mean)),
        scale=tuple(map(float, scale)),
        weights=tuple(map(float, weights)),
        shape=shape,
        amplitudes=tuple(map(float, _AMPLITUDES)),
        shares=tuple(map(float, shares)),
        correct=_correct(standard, samples),
        kernels=count,
        tasks=tasks,
    )


def _groups(samples: Sequence[Sample], standard: Array, names: Sequence[str]) -> list[_Group]:
    found = []
    for name in names:
        rows = [index for index, sample in enumerate(samples) if sample.group == name and sample.timed]
        kernels = tuple(samples[index].kernel for index in rows)
        times = np.array([samples[index].time_us for index in rows], dtype=np.float64)
        found.append(_Group(kernels[0].task_id, kernels, standard[rows], np.log2(times), 1.0))
    counts = Counter(group.task_id for group in found)
    return [replace(group, weight=1 / counts[group.task_id]) for group in found]


def _ridge(groups: Sequence[_Group], strength: float) -> Array:
    """Weights of log2 time on features, both centred within groups, every task of equal weight."""
    size = groups[0].features.shape[1]
    gram, target = np.eye(size) * strength, np.zeros(size)
    for group in groups:
        x, y = group.centred
        share = group.weight * _LEAST_KERNELS / len(y) / group.spread
        gram += x.T @ x * share
        target += x.T @ y * share
    return np.asarray(np.linalg.solve(gram, target))


def _best_ridge(groups: Sequence[_Group]) -> float:
    """The strength with the least mean squared error on tasks left out, on all the devices that timed them."""

    def error(strength: float) -> float:
        errors = []
        for task_id in sorted({group.task_id for group in groups}):
            weights = _ridge([group for group in groups if group.task_id != task_id], strength)
            for held in (group for group in groups if group.task_id == task_id):
                x, y = held.centred
                errors.append(held.weight * float(((y - x @ weights) ** 2).mean()) / held.spread)
        return float(np.mean(errors))

    return min(_RIDGES, key=error)


def _draws(groups: Sequence[_Group], weights: Array) -> list[_Draws]:
    """Random draws of every group's kernels, those of one size together; a small group is one draw."""
    rng = np.random.default_rng(0)
    by_size: dict[int, list[tuple[Array, Array, Array, float]]] = {}
    for group in (group for group in groups if len(group.y) > 1):
        size = min(_DRAWN, len(group.y))
        count = 1 if size == len(group.y) else _DRAWS
        for _ in range(count):
            rows = rng.permutation(len(group.y))[:size]
            x, residual = group.features[rows], group.y[rows] - group.features[rows] @ weights
            one = compared([group.kernels[row] for row in rows]), distances(x, x), residual - residual.mean()
            by_size.setdefault(size, []).append((*one, group.weight / count))
    return [
        _Draws(
            np.stack([one[0] for one in ones], axis=1),
            np.stack([one[1] for one in ones]),
            np.stack([one[2] for one in ones]),
            np.array([one[3] for one in ones]),
        )
        for _, ones in sorted(by_size.items())
    ]


def _fit_covariance(draws: Sequence[_Draws]) -> tuple[Shape, Array]:
    """The likeliest shape, and how often which amplitude occurs under it: one number after the other, over a grid."""
    shape = _FIRST
    best, shares = _likelihood(shape, draws)
    for _ in range(_ROUNDS):
        for name, values in _GRID.items():
            for value in values:
                trial = replace(shape, **{name: value})
                score, found = _likelihood(trial, draws)
                if score > best:
                    best, shape, shares = score, trial, found
    return shape, shares


def _likelihood(shape: Shape, draws: Sequence[_Draws]) -> tuple[float, Array]:
    """(log marginal likelihood up to a constant, the shares of the amplitudes that maximise it)."""
    logs, weights = [], []
    for draw in draws:
        size = draw.residual.shape[1]
        gram = shape.covariance(draw.pairs, draw.distance) + np.eye(size) * shape.noise**2 + OFFSET_VARIANCE
        factor = np.linalg.cholesky(gram)
        half = np.linalg.solve(factor, draw.residual[..., None])[..., 0]
        volume = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        logs.append(evidence(_AMPLITUDES, (half**2).sum(axis=1), size) - volume[:, None])
        weights.append(draw.weight)
    return _mixture(np.concatenate(logs), np.concatenate(weights))


def _mixture(logs: Array, weights: Array) -> tuple[float, Array]:
    """Shares of a mixture's parts by expectation maximisation. logs: (s, a) of each draw under each part."""
    top = logs.max(axis=1, keepdims=True)
    likelihood = np.exp(logs - top)
    flat = np.full(logs.shape[1], 1 / logs.shape[1])
    shares = flat
    for _ in range(_STEPS):
        found = likelihood * shares
        found /= found.sum(axis=1, keepdims=True)
        shares = (weights @ found + _FLAT_TASKS * flat) / (weights.sum() + _FLAT_TASKS)
    return float(weights @ (np.log(likelihood @ shares) + top[:, 0])), np.asarray(shares)


def _correct(standard: Array, samples: Sequence[Sample]) -> tuple[float, ...]:
    """Logistic weights of being right, the constant first, of the strongest ridge that is not clearly worse than
    another on tasks left out: by more than the standard error of their difference over tasks."""
    tasks = np.array([sample.kernel.task_id for sample in samples])
    ok = np.array([sample.ok for sample in samples], dtype=float)
    counts = Counter(tasks.tolist())
    weights = np.array([min(1.0, _MOST_OF_TASK / counts[task]) for task in tasks.tolist()])
    x = np.concatenate([np.ones((len(standard), 1)), standard], axis=1)
    losses = np.array(
        [
            [
                _loss(_logistic(x[rest], ok[rest], weights[rest], ridge), x[~rest], ok[~rest])
                for ridge in _CORRECT_RIDGES
            ]
            for rest in (tasks != task for task in sorted(counts))
        ]
    )
    least = losses[:, [losses.mean(axis=0).argmin()]]
    worse = losses - least
    clearly = worse.mean(axis=0) > worse.std(axis=0, ddof=1) / len(losses) ** 0.5
    ridge = max(strength for strength, beaten in zip(_CORRECT_RIDGES, clearly, strict=True) if not beaten)
    return tuple(map(float, _logistic(x, ok, weights, ridge)))


def _loss(theta: Array, x: Array, ok: Array) -> float:
    """Mean negative log likelihood."""
    score = np.clip(x @ theta, -30, 30)
    return float((np.log1p(np.exp(score)) - ok * score).mean())


def _logistic(x: Array, ok: Array, weights: Array, ridge: float) -> Array:
    """Ridge logistic weights, (d,), the first one hardly shrunk, by Newton's method."""
    penalty = np.full(x.shape[1], ridge)
    penalty[0] = 0.5  # a prior of a few virtual kernels keeps it finite where all are ok
    theta = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(x @ theta, -30, 30)))
        gradient = x.T @ (weights * (ok - p)) - penalty * theta
        hessian = (x * (weights * p * (1 - p))[:, None]).T @ x + np.diag(penalty)
        step = np.linalg.solve(hessian, gradient)
        theta = theta + step
        if float(np.abs(step).max()) < 1e-8:
            break
    return np.asarray(theta)
