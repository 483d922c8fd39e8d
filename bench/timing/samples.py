"""Raw timings as the lanes hand them over, and the block log-ratios that every statistic here starts from.

The unit of analysis is the block. In a block both sides are visited twice on every timed case, in the order ABBA or
BAAB (A is the baseline, B the candidate): places 0 and 1 are one pair, places 2 and 3 the other, and a drift that is
linear over the block cancels in their mean. A visit is an odd number of repetitions, of which the median counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from ...store.errors import InputError

Side = Literal["candidate", "baseline"]
BlockOrder = Literal["ABBA", "BAAB", "BB"]
"""`BB`: the candidate alone, where there is no baseline and hence no ratio."""
Column = Literal["cold", "warm"]

SIDE_OF_LETTER: dict[str, Side] = {"A": "baseline", "B": "candidate"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed call. Times in nanoseconds; `cold_ns` with flushed caches, `warm_ns` right after, None where not taken.

    order: the place of the visit in its block, 0..3 (0..1 in a `BB` block). discarded: the clocks or the throttle
    reasons say that this call does not count; its partner on the other side is then dropped with it, never one arm
    alone.
    """

    side: Side
    case_index: int
    cold_ns: float
    warm_ns: float | None
    order: int
    discarded: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """All samples of one block, in the order in which they were taken. group: the independent group (fresh processes)
    it is of.
    """

    order: BlockOrder
    samples: tuple[Sample, ...]
    group: int = 0


@dataclass(frozen=True, slots=True)
class BlockSamples:
    """Everything a measurement timed: the timed cases' names, and the blocks in the order in which they were taken."""

    cases: tuple[str, ...]
    blocks: tuple[Block, ...]


def visits(block: Block, case_index: int, column: Column = "cold") -> tuple[float, ...] | None:
    """One case's times in one block, one for each place: the median over the repetitions kept, in ns.

    Repetition j of a place pairs with repetition j of its pair's other place, and both are dropped if either is
    discarded. None where a pair has nothing left, or the column was not taken: without both pairs the block says
    nothing of this case. Raises InputError where the samples do not fit the block's order, or a time is not a positive
    number.
    """
    taken: list[list[Sample]] = [[] for _ in block.order]
    for sample in block.samples:
        if sample.case_index == case_index:
            if not 0 <= sample.order < len(taken) or SIDE_OF_LETTER[block.order[sample.order]] != sample.side:
                raise InputError(
                    f"A sample of the {sample.side} does not fit its block's order {block.order}",
                    value=f"place {sample.order}",
                    next_step="Give every sample the place, counted from 0, at which its side was visited.",
                )
            taken[sample.order].append(sample)
    times: list[float] = []
    for first, second in zip(taken[0::2], taken[1::2], strict=True):
        if len(first) != len(second):
            raise InputError(
                "The two places of a pair hold different numbers of repetitions",
                value=f"{len(first)} and {len(second)}",
                next_step="Sample both sides equally often; mark a repetition that does not count as discarded.",
            )
        kept = [pair for pair in zip(first, second, strict=True) if not (pair[0].discarded or pair[1].discarded)]
        for place in (0, 1):
            values = [time for pair in kept if (time := _time(pair[place], column)) is not None]
            if not values or len(values) != len(kept):
                return None
            times.append(median(values))
    return tuple(times)


def side_ns(block: Block, side: Side, case_index: int, column: Column = "cold") -> float | None:
    """One side's time of one case in one block, in ns: the geometric mean of its two visits; None where there is
    none.
    """
    times = visits(block, case_index, column)
    if times is None:
        return None
    own = [time for time, letter in zip(times, block.order, strict=True) if SIDE_OF_LETTER[letter] == side]
    return math.exp(sum(map(math.log, own)) / len(own)) if own else None


def case_log2(block: Block, case_index: int, column: Column = "cold") -> float | None:
    """log2(baseline time / candidate time) of one case in one block; None where a side or a pair is missing."""
    baseline, candidate = (side_ns(block, side, case_index, column) for side in ("baseline", "candidate"))
    return None if baseline is None or candidate is None else math.log2(baseline / candidate)


def block_log2(block: Block, cases: int, column: Column = "cold") -> float | None:
    """A block's log2 S: the mean over the timed cases of log2(baseline time / candidate time).

    None where any case is missing: a mean over fewer cases would be another quantity.
    """
    ratios = [ratio for index in range(cases) if (ratio := case_log2(block, index, column)) is not None]
    return sum(ratios) / cases if cases and len(ratios) == cases else None


def valid_blocks(samples: BlockSamples) -> tuple[list[float], list[int]]:
    """log2 S of every complete block, and the group of each: what `looks.after` is given while blocks come in."""
    pairs = [
        (ratio, block.group) for block in samples.blocks if (ratio := block_log2(block, len(samples.cases))) is not None
    ]
    return [ratio for ratio, _ in pairs], [group for _, group in pairs]


def discarded_share(blocks: Sequence[Block]) -> float:
    """Share of the samples marked discarded, 0..1."""
    flags = [sample.discarded for block in blocks for sample in block.samples]
    return sum(flags) / len(flags) if flags else 0.0


def _time(sample: Sample, column: Column) -> float | None:
    time = sample.cold_ns if column == "cold" else sample.warm_ns
    if time is not None and not (time > 0 and math.isfinite(time)):
        raise InputError(
            f"A {column} time is not a positive number of nanoseconds",
            value=time,
            next_step="This is a fault of the lane's clock: discard the sample, or repeat the block.",
        )
    return time
