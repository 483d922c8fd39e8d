"""The table of all metrics, on all pairs and on close ones, with intervals by bootstrap over tasks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from . import scores
from .calibration_error import ece_bins, ece_correct, ece_faster
from .ranking import auroc_correct, auroc_discovery, auroc_faster, recovery, remeasured, spearman_by_task
from .rows import Rows
from .selective import aurc, selective_accuracy

Metric = Callable[[Rows], float]
_EDGE_141, _EDGE_2 = 0.5, 1.0

PAIR_METRICS: dict[str, Metric] = {
    "accuracy": lambda rows: scores.accuracy(rows.timed),
    "off_by_one": lambda rows: scores.off_by_one(rows.timed),
    "direction": lambda rows: scores.direction(rows.timed),
    "brier": lambda rows: scores.brier(rows.timed),
    "crps": lambda rows: scores.crps(rows.timed),
    "rps": lambda rows: scores.rps(rows.timed),
    "nll": lambda rows: scores.nll(rows.timed),
    "absolute_error": lambda rows: scores.absolute_error(rows.timed),
    "coverage80": lambda rows: scores.coverage80(rows.timed),
    "ece_faster": ece_faster,
    "ece_bins": ece_bins,
    "auroc_faster": auroc_faster,
    "spearman": spearman_by_task,
    "aurc": aurc,
    "selective_accuracy_50": lambda rows: selective_accuracy(rows, 0.5),
    "selective_accuracy_80": lambda rows: selective_accuracy(rows, 0.8),
}
"""Computed on all rows and again on close pairs."""
WHOLE_METRICS: dict[str, Metric] = {
    "ece_correct": ece_correct,
    "auroc_correct": auroc_correct,
    "auroc_1.41x": lambda rows: auroc_discovery(rows, _EDGE_141),
    "auroc_2x": lambda rows: auroc_discovery(rows, _EDGE_2),
    "recovery_5": lambda rows: recovery(rows, 0.05, remeasured(rows)),
    "recovery_20": lambda rows: recovery(rows, 0.20, remeasured(rows)),
}
"""Meaningless on close pairs alone."""


@dataclass(frozen=True)
class Value:
    """A metric with its 95% interval; NaN where the rows cannot tell."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Table:
    """All metrics of one forecaster. rows, close: how many; missing: replies that could not be read."""

    rows: int
    close_rows: int
    missing: int
    whole: dict[str, Value]
    close: dict[str, Value]


def table(rows: Rows, *, draws: int = 500, seed: int = 0) -> Table:
    """Every metric with its interval. draws: bootstrap samples; 0 for none."""
    close = rows.close
    return Table(
        rows=len(rows),
        close_rows=len(close),
        missing=int((~rows.given).sum()),
        whole=_values(rows, {**PAIR_METRICS, **WHOLE_METRICS}, draws, seed),
        close=_values(close, PAIR_METRICS, draws, seed),
    )


def _values(rows: Rows, metrics: dict[str, Metric], draws: int, seed: int) -> dict[str, Value]:
    samples = [resample(rows, np.random.default_rng([seed, draw])) for draw in range(draws if len(rows) else 0)]
    return {name: interval(metric(rows), [metric(sample) for sample in samples]) for name, metric in metrics.items()}


def resample(rows: Rows, rng: np.random.Generator) -> Rows:
    """Whole tasks drawn with replacement, each draw a task of its own: pairs of one task are not independent."""
    members = {task: np.flatnonzero(rows.task == task) for task in np.unique(rows.task)}
    drawn = rng.choice(len(members), len(members))
    parts = [list(members.values())[number] for number in drawn]
    index = np.concatenate(parts)
    copy = np.repeat(np.arange(len(parts)), [len(part) for part in parts]).astype(str)
    taken = rows.take(index)
    return Rows(
        taken.p_correct,
        taken.p_bins,
        taken.ok,
        taken.log2,
        np.char.add(np.char.add(copy, "\n"), taken.task),
        np.char.add(np.char.add(copy, "\n"), taken.group),
        taken.given,
        taken.again,
    )


def interval(value: float, samples: list[float], level: float = 0.95) -> Value:
    """The percentile interval of bootstrap samples; NaN samples say nothing."""
    known = [sample for sample in samples if not math.isnan(sample)]
    if not known:
        return Value(value, math.nan, math.nan)
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Value(value, float(low), float(high))
