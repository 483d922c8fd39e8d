"""One bin table: whichever way a bin is asked for, it is the same bin."""

from __future__ import annotations

import math
import random
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.store.bins import BINS, EDGES, LOG2_EDGES, bin_of, bin_of_log2

VALUE_OF_TEXT = {"1/4": 0.25, "1/2": 0.5, "1/√2": 1 / math.sqrt(2), "1": 1.0, "√2": math.sqrt(2), "2": 2.0, "4": 4.0}


def number_from_text(speedup: float) -> int:
    """The bin whose printed range holds S: an independent reading of the table."""
    holding = []
    for entry in BINS:
        match = re.fullmatch(r"(?:(\S+) < )?S(?: <= (\S+))?", entry.range_text)
        assert match is not None
        low = VALUE_OF_TEXT[match[1]] if match[1] else 0.0
        high = VALUE_OF_TEXT[match[2]] if match[2] else math.inf
        if low < speedup <= high:
            holding.append(entry.number)
    assert len(holding) == 1
    return holding[0]


def test_ten_thousand_speedups_fall_into_the_same_bin_whichever_way_they_are_asked() -> None:
    generator = random.Random(20261130)
    speedups = [2.0 ** generator.uniform(-5, 5) for _ in range(10_000)]
    for edge in EDGES:
        speedups += [edge, edge * (1 - 1e-12), edge * (1 + 1e-12)]
    for speedup in speedups:
        found = bin_of(speedup)
        assert found == bin_of_log2(math.log2(speedup))
        assert found.number == number_from_text(speedup)
        assert found.log2_low < math.log2(speedup) <= found.log2_high


def test_bins_are_closed_above() -> None:
    assert [bin_of(edge).number for edge in EDGES] == [1, 2, 3, 4, 5, 6, 7]
    assert [bin_of_log2(edge).number for edge in LOG2_EDGES] == [1, 2, 3, 4, 5, 6, 7]
    assert bin_of(1.0).name == "minor_slowdown"
    assert bin_of(1.2).name == "minor_speedup"
    assert bin_of(1e-300).number == 1
    assert bin_of(1e300).number == 8


def test_the_table_is_whole() -> None:
    assert [entry.number for entry in BINS] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [entry.title for entry in BINS] == [
        "severe slowdown",
        "significant slowdown",
        "moderate slowdown",
        "minor slowdown",
        "minor speedup",
        "significant speedup",
        "high speedup",
        "extreme speedup",
    ]
    assert all(left.log2_high == right.log2_low for left, right in pairwise(BINS))
    assert all(entry.name.isidentifier() for entry in BINS)


def test_a_midpoint_lies_in_its_bin() -> None:
    assert [bin_of_log2(entry.midpoint_log2) for entry in BINS] == list(BINS)


@given(st.floats(allow_nan=False))
def test_bins_follow_the_order_of_s(log2_speedup: float) -> None:
    """Up to infinity: a bin is never lower for a greater S."""
    assert bin_of_log2(log2_speedup).number <= bin_of_log2(math.nextafter(log2_speedup, math.inf)).number


@pytest.mark.parametrize("speedup", [0.0, -1.0, math.nan])
def test_what_is_no_speedup_has_no_bin(speedup: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        bin_of(speedup)
    with pytest.raises(ValueError, match="NaN"):
        bin_of_log2(math.nan)
