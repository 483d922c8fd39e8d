"""A/A noise: how far two timings of the same thing lie apart in the same block, and what such a machine can resolve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, fmean, median

from .samples import SIDE_OF_LETTER, BlockSamples, visits

MAD_TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation, for normal noise."""
RANK_EFFICIENCY = math.pi / 3
"""Variance of the pseudo-median over that of the mean, for normal noise."""


@dataclass(frozen=True)
class Noise:
    """A/A noise of one measurement's own blocks.

    percent: robust standard deviation of A1/A2, the two visits to one side in one block, averaged over the cases.
    drift_percent: median of A1/A2 - 1: far from 0, the first visit differs from the second for a reason.
    blocks: how many blocks it comes from; with fewer than 3 both numbers are None.
    autocorrelation: of neighbouring blocks' log2 S, -1..1; clearly above 0, the intervals are too narrow. None where
    there are fewer than 8 blocks, or no ratio.
    """

    percent: float | None
    drift_percent: float | None
    blocks: int
    autocorrelation: float | None = None


def noise_of(samples: BlockSamples, blocks_log2: Sequence[float] = ()) -> Noise:
    """A/A noise from the baseline's two visits in every block; from the candidate's where it was sampled alone.

    blocks_log2: the ratios of the complete blocks in the order taken, for the autocorrelation.
    """
    shifts = [shift for block in range(len(samples.blocks)) if (shift := _shift(samples, block)) is not None]
    correlation = autocorrelation(blocks_log2)
    if len(shifts) < 3:
        return Noise(None, None, len(shifts), correlation)
    sigma = MAD_TO_SIGMA * median(abs(shift) for shift in shifts)
    return Noise(_percent(sigma), _percent(median(shifts)), len(shifts), correlation)


def autocorrelation(values: Sequence[float]) -> float | None:
    """Correlation of neighbouring values, about -1..1; of their ranks, so that a single outlier cannot make it.

    None with fewer than 8 values, or where all tie.
    """
    if len(values) < 8:
        return None
    ranks = [(sum(other < value for other in values) + sum(other <= value for other in values)) / 2 for value in values]
    centered = [rank - fmean(ranks) for rank in ranks]
    power = sum(rank**2 for rank in centered)
    return sum(a * b for a, b in pairwise(centered)) / power if power else None


def correlated(noise: Noise, blocks: int) -> bool:
    """Whether neighbouring blocks are more alike than 99% of independent ones would be (normal approximation)."""
    return noise.autocorrelation is not None and noise.autocorrelation * math.sqrt(blocks) > NormalDist().inv_cdf(0.99)


def resolution_percent(noise: Noise, blocks: int, confidence: float = 0.95) -> float | None:
    """The half-width in percent that an interval of S is expected to have after `blocks` blocks of this noise alone.

    A block's log-ratio has the variance of A1/A2 halved (two visits a side), or more where the candidate is the noisier
    side.
    """
    if noise.percent is None or blocks < 1:
        return None
    sigma = math.log2(1 + noise.percent / 100) / math.sqrt(2)
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * sigma * math.sqrt(RANK_EFFICIENCY / blocks)
    return _percent(reach)


def too_noisy_for(percent: float, noise: Noise, blocks: int) -> str | None:
    """A sentence where a difference of `percent` cannot be seen with so many blocks of this noise; None where it
    can. It says what can be.
    """
    resolved = resolution_percent(noise, blocks)
    if resolved is None or noise.percent is None or resolved <= percent:
        return None
    return (
        f"machine too noisy to see {_digits(percent)}: two timings of one kernel differ by {_digits(noise.percent)}, "
        f"so {blocks} blocks tell kernels apart from about {_digits(resolved)} on"
    )


def _shift(samples: BlockSamples, index: int) -> float | None:
    """log2(first visit / second visit) of the side that A/A noise is taken from, the mean over the cases."""
    block = samples.blocks[index]
    side = "candidate" if block.order == "BB" else "baseline"
    shifts = []
    for case_index in range(len(samples.cases)):
        times = visits(block, case_index)
        if times is None:
            return None
        first, second = (
            time for time, letter in zip(times, block.order, strict=True) if SIDE_OF_LETTER[letter] == side
        )
        shifts.append(math.log2(first / second))
    return fmean(shifts) if shifts else None


def _digits(percent: float) -> str:
    """`0.35%`, `3.9%`, `16%`, `114%`: two digits, whole ones where there are more."""
    return f"{percent:.0f}%" if percent >= 10 else f"{percent:.2g}%"


def _percent(log2_ratio: float) -> float:
    return 100 * math.expm1(log2_ratio * math.log(2))
