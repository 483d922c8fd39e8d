"""Verified pairs: a forecast as given, beside what was then measured. Calibration and promise stand on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...store.models import Forecast, Measurement
from .. import density

Side = Literal["faster", "slower"]


@dataclass(frozen=True)
class Call:
    """What a forecast amounts to: `faster` (correct and S > 1) or `slower` (all else), and how sure it is, 0.5..1."""

    side: Side
    confidence: float


def call_of(p_correct: float, p_bins: Sequence[float]) -> Call:
    """The side that a forecast takes, and its probability."""
    wins = p_correct * float(density.p_faster(p_bins))
    return Call("faster", wins) if wins > 0.5 else Call("slower", 1 - wins)


@dataclass(frozen=True)
class Pair:
    """One verified pair. Probabilities are as the forecaster gave them, never calibrated."""

    kernel_id: str
    p_correct: float
    p_bins: tuple[float, ...]
    ok: bool
    log2_speedup: float | None = None
    log2_low: float | None = None
    log2_high: float | None = None
    propensity: float = 1.0
    """The logged probability with which it was measured at all: 1 for `measure`, the audit's rate for the rest."""
    at: str = ""
    """When the forecast was made, UTC text."""
    group: str = ""
    """Task, for clustering."""

    @property
    def call(self) -> Call:
        return call_of(self.p_correct, self.p_bins)

    @property
    def wrong(self) -> bool:
        """`faster` said of a kernel that is not `ok`, or an interval wholly on the other side. A tie is not wrong."""
        if self.call.side == "faster":
            return not self.ok or (self.log2_high is not None and self.log2_high < 0)
        return self.ok and self.log2_low is not None and self.log2_low > 0


def pair_of(forecast: Forecast, measurement: Measurement, propensity: float = 1.0) -> Pair | None:
    """The verified pair, or None where the measurement says nothing about the forecast.

    That is: another pair of kernels, quarantined, `unsupported`, or `ok` without a ratio.
    """
    same = (forecast.kernel_id, forecast.baseline_id) == (measurement.kernel_id, measurement.baseline_id)
    ok = measurement.verdict == "ok"
    if (not same and ok) or forecast.kernel_id != measurement.kernel_id:
        return None
    if measurement.quarantine is not None or measurement.verdict == "unsupported":
        return None
    if ok and measurement.log2_speedup is None:
        return None
    return Pair(
        kernel_id=forecast.kernel_id,
        p_correct=forecast.p_correct,
        p_bins=forecast.p_bins,
        ok=ok,
        log2_speedup=measurement.log2_speedup if ok else None,
        log2_low=measurement.log2_low if ok else None,
        log2_high=measurement.log2_high if ok else None,
        propensity=propensity,
        at=forecast.created_at,
        group=measurement.task_name,
    )


def one_per_kernel(pairs: Sequence[Pair]) -> list[Pair]:
    """The earliest pair of each kernel, in time order: several about one kernel are not independent."""
    first: dict[str, Pair] = {}
    for pair in sorted(pairs, key=lambda pair: (pair.at, pair.kernel_id)):
        first.setdefault(pair.kernel_id, pair)
    return list(first.values())
