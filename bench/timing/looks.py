"""When to stop: looks at fixed numbers of blocks, an error that is shared out over them, and the ways to end early.

The error of 5% is spent over the looks by a function of the share of blocks taken (Lan & DeMets 1983). Each look's
interval has as its level what the function gave since the look before; as the levels add up to 5%, all intervals of a
measurement cover together with 95%, and so does the one at which it stops, whatever made it stop: a repeated confidence
interval (Jennison & Turnbull 1989). Adding up assumes nothing of how looks depend on each other, and with numbers of
blocks that double it costs 5 to 7% of width against the exact Gaussian boundary. What an exact interval cannot use of
its level, as only some levels exist, goes to the next look.

The function is Pocock's, not O'Brien and Fleming's: most candidates differ clearly, so that an early stop saves most;
and at 8 of 32 blocks the latter gives a level of 0.0001, which no exact interval of 8 blocks reaches (0.0078), while
Pocock's gives 0.018.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from ...store.models import Comparison
from .compare import combine_groups, compare, compare_claim, group_intervals
from .intervals import Interval, attained_level, interval, range_interval
from .plan import SamplingPlan

StopReason = Literal["decided", "censored", "last look", "time cap", "blocks gave out"]
Spending = Callable[[float, float], float]

RELATIVE_WIDTH = 0.1
"""Of a large effect a tenth is precise enough: nobody needs a 3x speedup to half a percent."""


@dataclass(frozen=True)
class Continue:
    """Take more blocks. next_look: the number of complete blocks at which to ask again; asking earlier is allowed."""

    next_look: int


@dataclass(frozen=True)
class Stop:
    """The measurement ends. level: the two-sided error of the interval; interval: of log2 S, None without a complete
    block.
    """

    reason: StopReason
    comparison: Comparison
    interval: Interval | None
    level: float

    @property
    def censored(self) -> bool:
        return self.reason == "censored"


def pocock(share: float, alpha: float) -> float:
    """Error spent when `share` (0..1) of the blocks is in: alpha·ln(1 + (e-1)·share), close to Pocock's equal
    levels.
    """
    return alpha * math.log1p((math.e - 1) * min(share, 1.0))


def obrien_fleming(share: float, alpha: float) -> float:
    """Error spent when `share` (0..1) of the blocks is in: 2 - 2·Phi(z / sqrt(share)); next to nothing early."""
    if share <= 0:
        return 0.0
    normal = NormalDist()
    return 2 - 2 * normal.cdf(normal.inv_cdf(1 - alpha / 2) / math.sqrt(min(share, 1.0)))


def level_at(blocks: int, plan: SamplingPlan, *, last: bool, spending: Spending = pocock) -> float:
    """Two-sided error of the interval after `blocks` complete blocks. last: no look follows, so all that is left is
    spent.

    The last look may come between two planned ones, provided that its time does not depend on the ratios (a time cap).
    """
    used = 0.0
    for look in plan.looks:
        if look >= blocks:
            break
        used += attained_level(look, spending(look / plan.most_blocks, plan.alpha) - used)
    return (plan.alpha if last else spending(blocks / plan.most_blocks, plan.alpha)) - used


def after(
    blocks_log2: Sequence[float], plan: SamplingPlan, elapsed_s: float, groups: Sequence[int] | None = None
) -> Continue | Stop:
    """Whether to go on after these complete blocks; to be asked after every block.

    blocks_log2: log2 S of each block; elapsed_s: seconds of sampling so far; groups: the group of each block, where
    None the plan's own (`SamplingPlan.group_of`). Stops: the last look; clearly slow, hence censored; the time cap; or
    at a look with a decided comparison whose interval is tight: half-width within the plan's target, or a tenth of the
    effect.
    """
    count = len(blocks_log2)
    groups = [plan.group_of(index) for index in range(count)] if groups is None else groups
    if count >= plan.most_blocks:
        return _stop("last look", blocks_log2, groups, plan, last=True)
    if clearly_slow(blocks_log2, plan):
        reading = range_interval(blocks_log2)
        return Stop("censored", "slower", reading, 1 - reading.confidence)
    if elapsed_s >= plan.time_cap_s:
        return _stop("time cap", blocks_log2, groups, plan, last=True)
    if count in plan.looks:
        stop = _stop("decided", blocks_log2, groups, plan, last=False)
        if stop.comparison != "unclear" and stop.interval is not None and _tight(stop.interval, plan):
            return stop
    return Continue(min(look for look in plan.looks if look > count))


def finish(blocks_log2: Sequence[float], plan: SamplingPlan, groups: Sequence[int]) -> Stop:
    """The end of a measurement that its lane ended before `after` did, for a reason that the ratios had no part in."""
    return _stop("blocks gave out", blocks_log2, groups, plan, last=True)


def clearly_slow(blocks_log2: Sequence[float], plan: SamplingPlan) -> bool:
    """Whether every one of at least `censor_blocks` blocks is slower than the censor ratio, and they agree about it.

    Agree: they lie closer together than the nearest of them to 0. Two equal sides whose noise is normal fulfil this by
    chance once in 1,600 measurements if a block's noise dwarfs the censor ratio, and never at the noise that a bench is
    used with; asking after every block costs no error worth spending.
    """
    if len(blocks_log2) < plan.censor_blocks:
        return False
    nearest, farthest = max(blocks_log2), min(blocks_log2)
    return nearest < -math.log2(plan.censor_ratio) and nearest - farthest < -nearest


def _tight(found: Interval, plan: SamplingPlan) -> bool:
    return found.half_width <= max(plan.target_log2, RELATIVE_WIDTH * abs(found.center))


def _stop(
    reason: StopReason, blocks_log2: Sequence[float], groups: Sequence[int], plan: SamplingPlan, *, last: bool
) -> Stop:
    level = level_at(len(blocks_log2), plan, last=last)
    if not blocks_log2:
        return Stop(reason, "unclear", None, level)
    if plan.groups == 1:
        found = interval(blocks_log2, level)
        return Stop(reason, compare(found, plan.tie_log2), found, level)
    found = combine_groups(blocks_log2, groups, plan, level)
    return Stop(reason, compare_claim(found, group_intervals(blocks_log2, groups, plan), plan), found, level)
