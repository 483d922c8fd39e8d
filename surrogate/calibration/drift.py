"""The drift alarm: whether the newest verified pairs still behave as the calibration fitted on the older ones says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import density
from .fit import LEAST_LOCAL, Calibration, calibrated_bins, calibrated_correct, fit
from .pairs import Pair, one_per_kernel

WINDOW = 30
_LIMIT = 3.5
"""Standard deviations; two tests on each window, so false alarms are about one in a thousand windows."""
_LEAST_VARIANCE = 1.0
"""A forecaster that is sure of everything leaves the sum no variance: one surprise alone is no drift."""


@dataclass(frozen=True)
class Drift:
    """Standardised surplus of correct, and of faster, kernels over what was forecast; `alarm` when one is too large."""

    alarm: bool
    reason: str
    correct: float = 0.0
    faster: float = 0.0


def drift(pairs: Sequence[Pair], prior: Calibration | None = None, window: int = WINDOW) -> Drift:
    """Compare the newest `window` pairs, one a kernel, with the calibration of all earlier ones."""
    ordered = one_per_kernel(pairs)
    if len(ordered) < window + LEAST_LOCAL:
        return Drift(False, f"too few verified pairs to see drift ({len(ordered)} of {window + LEAST_LOCAL})")
    old, new = ordered[:-window], ordered[-window:]
    calibration = fit(old, prior)
    p_correct = calibrated_correct([pair.p_correct for pair in new], calibration.correct)
    correct = _surplus([pair.ok for pair in new], p_correct.tolist())
    timed = [pair for pair in new if pair.log2_speedup is not None]
    faster = 0.0
    if timed:
        p_faster = density.p_faster(calibrated_bins(np.array([pair.p_bins for pair in timed]), calibration.bins))
        faster = _surplus([(pair.log2_speedup or 0.0) > 0 for pair in timed], p_faster.tolist())
    for name, value in (("correct", correct), ("faster", faster)):
        if abs(value) > _LIMIT:
            more = "more" if value > 0 else "fewer"
            return Drift(True, f"{more} kernels turned out {name} than forecast ({value:+.1f} sd)", correct, faster)
    return Drift(False, f"the last {window} pairs are as forecast", correct, faster)


def _surplus(happened: Sequence[bool], p: Sequence[float]) -> float:
    variance = max(_LEAST_VARIANCE, math.fsum(value * (1 - value) for value in p))
    return (sum(happened) - math.fsum(p)) / math.sqrt(variance)
