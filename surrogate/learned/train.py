"""Training the learned forecaster on measured kernels. numpy only, seconds for a few thousand kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from ...store.errors import InputError
from ...store.models import Facts, Kernel
from ..density import Array
from .features import vector
from .model import Model, alike

_LEAST_KERNELS = 30
_MOST_IN_GROUP = 120
"""Kernels of one group that the covariance is fitted on: similarities are computed for each pair."""
_RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_SHARES = (0.3, 0.6, 0.9)
_LENGTHS = (0.1, 0.25, 0.6)
_WIDTHS = (0.5, 1.0, 2.0)
_NOISES = (0.02, 0.06)
_CORRECT_RIDGE = 10.0
_OFFSET_VARIANCE = 400.0


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
    """The timed kernels of one group: features (n, d), log2 times (n,), similarities (m, m) of the first m."""

    task_id: str
    features: Array
    y: Array
    alike: Array

    @property
    def centred(self) -> tuple[Array, Array]:
        return self.features - self.features.mean(axis=0), self.y - self.y.mean()


def train(samples: Sequence[Sample]) -> Model:
    """The model of these samples. Raises InputError for fewer than 30 timed kernels or a single task.

    Leave-one-task-out error picks the ridge, the marginal likelihood of the residuals the covariance.
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
    groups = [_group(samples, standard, name) for name in names]
    weights = _ridge(groups, _best_ridge(groups))
    model = Model(
        trained_for=tuple(sorted({(sample.kernel.language, sample.device_kind) for sample in samples})),
        mean=tuple(map(float, mean)),
        scale=tuple(map(float, scale)),
        weights=tuple(map(float, weights)),
        amplitude=1.0,
        share=0.6,
        length=0.25,
        width=1.0,
        noise=0.05,
        correct=_logistic(standard, np.array([sample.ok for sample in samples])),
        kernels=count,
        tasks=tasks,
    )
    return _fit_covariance(model, groups)


def _group(samples: Sequence[Sample], standard: Array, name: str) -> _Group:
    rows = [index for index, sample in enumerate(samples) if sample.group == name and sample.timed]
    # Spread over the group in its given order, so that no one author's batch stands for all.
    step = max(1, -(-len(rows) // _MOST_IN_GROUP))
    chosen = rows[::step]
    rest = [index for index in rows if index not in set(chosen)]
    ordered = [*chosen, *rest]
    times = np.array([samples[index].time_us for index in ordered], dtype=np.float64)
    task_id = samples[rows[0]].kernel.task_id
    return _Group(task_id, standard[ordered], np.log2(times), alike([samples[index].kernel for index in chosen]))


def _ridge(groups: Sequence[_Group], strength: float) -> Array:
    """Weights of log2 time on features, both centred within groups, every group of equal weight."""
    size = groups[0].features.shape[1]
    gram, target = np.eye(size) * strength, np.zeros(size)
    for group in groups:
        x, y = group.centred
        gram += x.T @ x * (_LEAST_KERNELS / len(y))
        target += x.T @ y * (_LEAST_KERNELS / len(y))
    return np.asarray(np.linalg.solve(gram, target))


def _best_ridge(groups: Sequence[_Group]) -> float:
    """The strength with the least mean squared error on tasks left out, on all the devices that timed them."""

    def error(strength: float) -> float:
        errors = []
        for task_id in sorted({group.task_id for group in groups}):
            weights = _ridge([group for group in groups if group.task_id != task_id], strength)
            for held in (group for group in groups if group.task_id == task_id):
                x, y = held.centred
                errors.append(float(((y - x @ weights) ** 2).mean()))
        return float(np.mean(errors))

    return min(_RIDGES, key=error)


def _fit_covariance(model: Model, groups: Sequence[_Group]) -> Model:
    """The covariance of the residuals by its marginal likelihood, with the amplitude in closed form."""
    best: tuple[float, Model] | None = None
    for share, length, width, noise in product(_SHARES, _LENGTHS, _WIDTHS, _NOISES):
        trial = replace(model, share=share, length=length, width=width, noise=noise)
        score, amplitude = _likelihood(trial, groups)
        if best is None or score > best[0]:
            best = score, replace(trial, amplitude=amplitude, noise=noise * amplitude)
    assert best is not None
    return best[1]


def _likelihood(model: Model, groups: Sequence[_Group]) -> tuple[float, float]:
    """(log marginal likelihood up to a constant, the amplitude that maximises it), for amplitude 1 in `model`."""
    quadratic, logs, count = 0.0, 0.0, 0
    weights = np.array(model.weights)
    for group in groups:
        size = len(group.alike)
        x, y = group.features[:size], group.y[:size]
        residual = y - x @ weights
        residual = residual - residual.mean()
        gram = model.covariance(group.alike, x) + np.eye(size) * model.noise**2 + _OFFSET_VARIANCE
        factor = np.linalg.cholesky(gram)
        half = np.linalg.solve(factor, residual)
        quadratic += float(half @ half)
        logs += float(2 * np.log(np.diag(factor)).sum())
        count += size
    variance = max(quadratic / count, 1e-6)
    return -0.5 * (count * float(np.log(variance)) + logs), float(np.sqrt(variance))


def _logistic(standard: Array, ok: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[float, ...]:
    """Ridge logistic weights of `ok`, the constant (not shrunk) first, by Newton's method."""
    x = np.concatenate([np.ones((len(standard), 1)), standard], axis=1)
    penalty = np.full(x.shape[1], _CORRECT_RIDGE)
    penalty[0] = 0.5  # a prior of a few virtual kernels keeps it finite where all are ok
    theta = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(x @ theta, -30, 30)))
        gradient = x.T @ (ok - p) - penalty * theta
        hessian = (x * (p * (1 - p))[:, None]).T @ x + np.diag(penalty)
        step = np.linalg.solve(hessian, gradient)
        theta = theta + step
        if float(np.abs(step).max()) < 1e-8:
            break
    return tuple(map(float, theta))
