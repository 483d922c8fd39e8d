"""From an interval of log2 S to a comparison, and the combination of independent groups that a claim asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev

from ...store.models import Comparison
from .intervals import Interval, interval, pseudo_median
from .plan import SamplingPlan


def compare(found: Interval, tie_log2: float) -> Comparison:
    """The comparison that an interval of log2 S allows. tie_log2: half-width of the tie band, log2(1 + δ).

    `tie` where the whole interval lies in the band; `faster` where it is wholly above 0, `slower` where wholly below;
    else `unclear`.
    """
    if found.within(-tie_log2, tie_log2):
        return "tie"
    if found.low > 0:
        return "faster"
    return "slower" if found.high < 0 else "unclear"


def compare_claim(found: Interval, of_groups: Sequence[Interval], plan: SamplingPlan) -> Comparison:
    """As `compare`, but `faster` only where the interval and those of all the plan's groups lie above log2(1 +
    δ).

    As all groups must agree, this needs no share of the error: it errs less often than any one of them.
    """
    comparison = compare(found, plan.tie_log2)
    if comparison != "faster":
        return comparison
    enough = len(of_groups) == plan.groups
    above = all(each.low > plan.tie_log2 for each in (found, *of_groups))
    return "faster" if enough and above else "unclear"


def group_intervals(blocks_log2: Sequence[float], groups: Sequence[int], plan: SamplingPlan) -> list[Interval]:
    """The interval of every group with at least one run's blocks, each at the plan's whole error.

    blocks_log2, groups: log2 S of each complete block and the group it is of. A group in its first run is left out.
    """
    members = _by_group(blocks_log2, groups)
    return [interval(ratios, plan.alpha) for ratios in members if len(ratios) >= plan.blocks_per_run]


def combine_groups(blocks_log2: Sequence[float], groups: Sequence[int], plan: SamplingPlan, level: float) -> Interval:
    """Interval of log2 S over groups, runs and blocks; centre: the median of the groups' pseudo-medians.

    The hull of two intervals: of all blocks as if they were one run, and Student's t over the pseudo-medians of the
    complete runs, which holds where processes differ more than blocks do (then the runs are all there is to count).
    Neither alone is safe: a few runs may agree by luck, and blocks of one process share its luck. With fewer than two
    complete runs: the blocks' alone.
    """
    pooled = interval(blocks_log2, level)
    members, size = _by_group(blocks_log2, groups), plan.blocks_per_run
    runs = [
        pseudo_median(ratios[start : start + size])
        for ratios in members
        for start in range(0, len(ratios) - size + 1, size)
    ]
    if len(runs) < 2:
        return pooled
    center = median(pseudo_median(ratios) for ratios in members if len(ratios) >= size)
    reach = student_quantile(1 - level / 2, len(runs) - 1) * stdev(runs) / math.sqrt(len(runs))
    return Interval(
        center=center,
        low=min(pooled.low, fmean(runs) - reach, center),
        high=max(pooled.high, fmean(runs) + reach, center),
        confidence=1 - level,
        method=f"{pooled.method}, widened to Student's t over {len(runs)} runs",
    )


def _by_group(blocks_log2: Sequence[float], groups: Sequence[int]) -> list[list[float]]:
    members: dict[int, list[float]] = {}
    for ratio, group in zip(blocks_log2, groups, strict=True):
        members.setdefault(group, []).append(ratio)
    return list(members.values())


def student_quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t, by bisection. probability in (0.5, 1), freedom a positive integer."""
    low, high = 0.0, 1.0
    while student_probability(high, freedom) < probability:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if student_probability(middle, freedom) < probability else (low, middle)
    return high


def student_probability(value: float, freedom: int) -> float:
    """P(T <= value) for an integer number of degrees of freedom: the finite sums of Abramowitz & Stegun 26.7.3 and
    26.7.4.
    """
    angle = math.atan(value / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for step in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine**2 * (step - 1) / step
        total += term
    share = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return (1 + share) / 2
