"""How a measurement is sampled: the order inside each block, the looks, the repetitions and the limits of each
effort.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...store.errors import InputError
from ...store.models import Effort

MOST_REPETITIONS = 15
"""More repetitions a visit lengthen a block without making the blocks agree better: what is left is noise between
visits.
"""


@dataclass(frozen=True)
class SamplingPlan:
    """How long and how precisely one candidate is measured. Made by `plan_for`.

    looks: numbers of complete blocks at which the data may be looked at; the last one is the most blocks taken.
    repetitions: odd number of calls a visit; a side is visited twice a block and case. tie_margin: δ of the tie band,
    as a fraction: 0.01 is ±1%. target_half_width: of the interval, as a fraction. blocks_per_run: complete blocks that
    one process of each side takes on cuda before a fresh one follows (on cpu every block is fresh). groups: independent
    groups; the runs go to them in turn, and where there are several, all must agree before anything is called faster.
    alpha: two-sided error over all looks together. time_cap_s: seconds of sampling after which the measurement ends as
    it is. censor_ratio: a candidate this many times slower may stop after `censor_blocks` blocks, as censored.
    """

    effort: Effort
    looks: tuple[int, ...]
    repetitions: int
    tie_margin: float
    target_half_width: float
    time_cap_s: float
    blocks_per_run: int
    groups: int
    alpha: float = 0.05
    censor_ratio: float = 2.0
    censor_blocks: int = 5

    @property
    def most_blocks(self) -> int:
        return self.looks[-1]

    @property
    def tie_log2(self) -> float:
        """Half-width of the tie band in log2 S."""
        return math.log2(1 + self.tie_margin)

    @property
    def target_log2(self) -> float:
        """Target half-width of the interval in log2 S."""
        return math.log2(1 + self.target_half_width)

    def run_of(self, complete_blocks: int) -> int:
        """The run that the next block is of, given how many complete blocks there are."""
        return complete_blocks // self.blocks_per_run

    def group_of(self, complete_blocks: int) -> int:
        """The group that the next block is of, given how many complete blocks there are."""
        return self.run_of(complete_blocks) % self.groups


@dataclass(frozen=True)
class _Effort:
    looks: tuple[int, ...]
    tie_margin: float
    target_half_width: float
    time_cap_s: float
    blocks_per_run: int
    groups: int
    aim_s: float
    """Seconds of sampling that the repetitions aim at until the first look."""


_EFFORTS: dict[Effort, _Effort] = {
    "quick": _Effort((8,), 0.01, 0.01, 10.0, 8, 1, 0.02),
    "normal": _Effort((8, 16, 32), 0.01, 0.005, 60.0, 32, 1, 0.4),
    "claim": _Effort((32, 64), 0.005, 0.005, 300.0, 8, 4, 4.0),
}


def plan_for(effort: Effort, *, sample_s: float, cases: int, time_cap_s: float | None = None) -> SamplingPlan:
    """The plan of an effort. Looks begin at eight blocks, the fewest whose exact interval reaches the first look's
    level; those of a claim at 32, four groups, as it is decided over groups and an earlier look would only spend error.

    sample_s: estimate of one sample's whole cost in seconds (set-up, flush, call, check), the mean over sides and
    cases; cases: number of timed cases; time_cap_s: overrides the effort's cap. Raises InputError where one of them is
    not positive.
    """
    for name, value in (
        ("sample_s", sample_s),
        ("cases", cases),
        ("time_cap_s", 1.0 if time_cap_s is None else time_cap_s),
    ):
        if not (value > 0 and math.isfinite(value)):
            raise InputError(
                f"A sampling plan needs a positive {name}", value=value, next_step="Estimate one sample's cost first."
            )
    chosen = _EFFORTS[effort]
    return SamplingPlan(
        effort=effort,
        looks=chosen.looks,
        repetitions=_odd(chosen.aim_s / (chosen.looks[0] * 4 * cases * sample_s)),
        tie_margin=chosen.tie_margin,
        target_half_width=chosen.target_half_width,
        time_cap_s=chosen.time_cap_s if time_cap_s is None else time_cap_s,
        blocks_per_run=chosen.blocks_per_run,
        groups=chosen.groups,
    )


def block_orders(blocks: int, rng: np.random.Generator) -> Sequence[Literal["ABBA", "BAAB"]]:
    """Order of each block, balanced and random: of every four consecutive ones two are ABBA (the last 1 to 3 as they
    fall).

    rng: seeded by the caller from a secret, so that a candidate cannot know which side comes next.
    """
    orders: list[Literal["ABBA", "BAAB"]] = []
    while len(orders) < blocks:
        first = rng.permutation(4) < 2
        orders += ["ABBA" if is_first else "BAAB" for is_first in first]
    return tuple(orders[:blocks])


def _odd(wanted: float) -> int:
    """The largest odd number of repetitions not above `wanted`, within 1..MOST_REPETITIONS."""
    whole = min(max(int(wanted), 1), MOST_REPETITIONS)
    return whole if whole % 2 else whole - 1
