"""Raw samples to block log-ratios: the order's arithmetic, and discarding in pairs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.timing.samples import (
    Block,
    BlockOrder,
    BlockSamples,
    Sample,
    Side,
    block_log2,
    case_log2,
    discarded_share,
    side_ns,
    valid_blocks,
    visits,
)
from kforecast.store.errors import InputError

SIDES: dict[str, Side] = {"A": "baseline", "B": "candidate"}
TIMES = st.floats(10.0, 1e9)


NOTHING: frozenset[tuple[int, int, int]] = frozenset()


def block(
    order: BlockOrder, *cases: list[list[float]], discard: frozenset[tuple[int, int, int]] = NOTHING, group: int = 0
) -> Block:
    """A block from cases[case][place][repetition] in ns; discard holds (case, place, repetition)."""
    samples = tuple(
        Sample(SIDES[order[place]], case, time, time / 2, place, (case, place, repetition) in discard)
        for case, places in enumerate(cases)
        for place, times in enumerate(places)
        for repetition, time in enumerate(times)
    )
    return Block(order, samples, group)


@given(st.lists(TIMES, min_size=4, max_size=4))
def test_ratio_is_baseline_over_candidate_in_either_order(times: list[float]) -> None:
    places = [[time] for time in times]
    forward = case_log2(block("ABBA", places), 0)
    assert forward == pytest.approx((math.log2(times[0] * times[3]) - math.log2(times[1] * times[2])) / 2, abs=1e-9)
    assert case_log2(block("BAAB", places), 0) == pytest.approx(-forward, abs=1e-9)


@given(st.floats(-2.0, 2.0), st.floats(-0.5, 0.5))
def test_linear_drift_cancels(log2_speedup: float, drift: float) -> None:
    def place(index: int, letter: str) -> list[float]:
        return [1000 * 2.0 ** (index * drift - (log2_speedup if letter == "B" else 0.0))]

    for order in ("ABBA", "BAAB"):
        found = case_log2(block(order, [place(index, letter) for index, letter in enumerate(order)]), 0)
        assert found == pytest.approx(log2_speedup, abs=1e-9)


def test_the_median_of_the_repetitions_counts() -> None:
    assert visits(block("ABBA", [[8.0, 100.0, 9.0], [4.0] * 3, [4.0] * 3, [9.0] * 3]), 0) == (9.0, 4.0, 4.0, 9.0)


def test_a_discarded_sample_takes_its_partner_with_it() -> None:
    times = [[8.0, 80.0, 8.0], [4.0, 1.0, 4.0], [4.0] * 3, [8.0] * 3]
    found = visits(block("ABBA", times, discard=frozenset({(0, 0, 1)})), 0)
    assert found == (8.0, 4.0, 4.0, 8.0)
    only_last = block("ABBA", [[1.0, 8.0], [1.0, 4.0], [4.0, 4.0], [8.0, 8.0]], discard=frozenset({(0, 0, 0)}))
    assert visits(only_last, 0) == (8.0, 4.0, 4.0, 8.0), "the partner's 1.0 must be gone although it was not marked"


def test_a_block_without_a_whole_pair_says_nothing_of_the_case_nor_of_the_mean() -> None:
    good = [[8.0], [4.0], [4.0], [8.0]]
    broken = block("ABBA", good, good, discard=frozenset({(1, 3, 0)}))
    assert case_log2(broken, 1) is None
    assert case_log2(broken, 0) == pytest.approx(1.0)
    assert block_log2(broken, 2) is None
    samples = BlockSamples(("a", "b"), (broken, block("ABBA", good, good, group=3)))
    assert valid_blocks(samples) == ([pytest.approx(1.0)], [3])
    assert discarded_share(samples.blocks) == pytest.approx(1 / 16)


def test_the_block_ratio_is_the_mean_over_cases() -> None:
    twice, same = [[8.0], [4.0], [4.0], [8.0]], [[5.0], [5.0], [5.0], [5.0]]
    assert block_log2(block("ABBA", twice, same), 2) == pytest.approx(0.5)
    assert block_log2(block("ABBA", twice, same), 2, "warm") == pytest.approx(0.5)


def test_a_candidate_alone_has_times_and_no_ratio() -> None:
    alone = block("BB", [[4.0], [9.0]])
    assert side_ns(alone, "candidate", 0) == pytest.approx(6.0)
    assert side_ns(alone, "baseline", 0) is None
    assert case_log2(alone, 0) is None


def test_a_column_that_was_not_taken_is_none() -> None:
    cold_only = Block("BB", tuple(Sample("candidate", 0, 5.0, None, place) for place in (0, 1)))
    assert side_ns(cold_only, "candidate", 0, "warm") is None
    assert side_ns(cold_only, "candidate", 1) is None


@pytest.mark.parametrize(
    "samples",
    [
        (Sample("candidate", 0, 5.0, None, 0),),
        (Sample("baseline", 0, 5.0, None, 4),),
        (Sample("baseline", 0, 5.0, None, 0),),
        tuple(Sample(SIDES[letter], 0, 0.0, None, place) for place, letter in enumerate("ABBA")),
        tuple(Sample(SIDES[letter], 0, math.nan, None, place) for place, letter in enumerate("ABBA")),
    ],
    ids=["wrong side", "no such place", "lone arm", "zero time", "nan time"],
)
def test_samples_that_cannot_be_are_refused(samples: tuple[Sample, ...]) -> None:
    with pytest.raises(InputError):
        visits(Block("ABBA", samples), 0)
