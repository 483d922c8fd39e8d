"""What an evaluation answers: every forecaster's scores with their intervals, and the points of its plots."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ..surrogate import density
from ..surrogate.metrics.calibration_error import Point, reliability
from ..surrogate.metrics.rows import Rows
from ..surrogate.metrics.selective import risk_coverage
from ..surrogate.metrics.table import Value, table
from .eval_pairs import Split

_MOST_POINTS = 100
Role = Literal["forecaster", "calibrated", "control"]


class Number(BaseModel):
    """A metric with its 95% interval by bootstrap over tasks; null where the rows cannot tell."""

    model_config = ConfigDict(frozen=True)

    value: float | None
    low: float | None
    high: float | None


class PromiseCheck(BaseModel):
    """What became of the promise at one alpha: trusted answers, how many were wrong, of how many in all."""

    model_config = ConfigDict(frozen=True)

    alpha: float
    answers: int
    trusted: int
    wrong: int


class Scored(BaseModel):
    """One forecaster's scores. missing: replies that could not be read, which count as uniform."""

    model_config = ConfigDict(frozen=True)

    name: str
    role: Role
    pairs: int
    close_pairs: int
    missing: int
    usd: float | None
    stepped_aside: int = 0
    """Pairs it was not trained for: base rates stand there."""
    scores: dict[str, Number]
    close: dict[str, Number]
    reliability: tuple[tuple[float, float, int], ...]
    """Of P(S > 1): said, happened, count."""
    risk_coverage: tuple[tuple[float, float], ...]
    promise: tuple[PromiseCheck, ...] = ()


class EvalResult(BaseModel):
    """The answer of `evaluate`."""

    model_config = ConfigDict(frozen=True)

    summary: str
    on: str
    split: Split
    folds: tuple[str, ...]
    tasks: int
    kernels: int
    pairs: int
    measured: int
    siblings: int
    forecasters: tuple[Scored, ...]


def scored(
    name: str,
    role: Role,
    rows: Rows,
    *,
    draws: int,
    seed: int,
    usd: float | None,
    promise: tuple[PromiseCheck, ...] = (),
) -> Scored:
    """All scores of one forecaster's rows. draws: bootstrap samples."""
    found = table(rows, draws=draws, seed=seed)
    timed = rows.timed
    points: list[Point] = reliability(density.p_faster(timed.p_bins), timed.log2 > 0) if len(timed) else []
    coverage, risk = risk_coverage(rows)
    return Scored(
        name=name,
        role=role,
        pairs=found.rows,
        close_pairs=found.close_rows,
        missing=found.missing,
        usd=usd,
        scores={metric: _number(value) for metric, value in found.whole.items()},
        close={metric: _number(value) for metric, value in found.close.items()},
        reliability=tuple((point.said, point.happened, point.count) for point in points),
        risk_coverage=tuple((float(coverage[index]), float(risk[index])) for index in _drawn(len(coverage))),
        promise=promise,
    )


def _drawn(count: int) -> list[int]:
    """Of so many points of a curve, at most `_MOST_POINTS` to keep, the last among them."""
    step = max(1, -(-count // _MOST_POINTS))
    return list(range(count - 1, -1, -step))[::-1]


def _number(value: Value) -> Number:
    def finite(number: float) -> float | None:
        return number if math.isfinite(number) else None

    return Number(value=finite(value.value), low=finite(value.low), high=finite(value.high))
