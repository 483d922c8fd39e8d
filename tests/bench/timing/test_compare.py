"""Comparisons from intervals, Student's t, and the combination of groups."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kforecast.bench.timing.compare import (
    combine_groups,
    compare,
    compare_claim,
    group_intervals,
    student_probability,
    student_quantile,
)
from kforecast.bench.timing.intervals import Interval, interval
from kforecast.bench.timing.plan import plan_for

CLAIM = plan_for("claim", sample_s=1e-3, cases=1)
TIE = math.log2(1.01)


def found(low: float, high: float) -> Interval:
    return (
        Interval((low + high) / 2, low, high, 0.95, "given") if high < math.inf else Interval(0, low, high, 1, "none")
    )


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.001, 0.5, "faster"),
        (0.02, 0.5, "faster"),
        (-0.5, -0.001, "slower"),
        (-0.5, -0.02, "slower"),
        (0.001, 0.01, "tie"),
        (-TIE, TIE, "tie"),
        (0.0, 0.0, "tie"),
        (0.0, 0.5, "unclear"),
        (-0.5, 0.0, "unclear"),
        (-0.01, 0.02, "unclear"),
        (-math.inf, math.inf, "unclear"),
    ],
)
def test_comparison(low: float, high: float, said: str) -> None:
    assert compare(found(low, high), TIE) == said


@given(st.floats(-3, 3), st.floats(0, 3))
def test_swapping_the_sides_swaps_the_comparison(low: float, width: float) -> None:
    swapped = {"faster": "slower", "slower": "faster", "tie": "tie", "unclear": "unclear"}
    given_, mirrored = found(low, low + width), found(-low - width, -low)
    assert compare(mirrored, TIE) == swapped[compare(given_, TIE)]


def test_a_claim_is_no_weaker_than_its_weakest_part() -> None:
    strong, weak = found(0.02, 0.04), found(0.005, 0.04)
    assert compare_claim(strong, [strong] * 4, CLAIM) == "faster"
    assert compare_claim(strong, [strong, strong, strong, weak], CLAIM) == "unclear"
    assert compare_claim(weak, [strong] * 4, CLAIM) == "unclear"
    assert compare_claim(strong, [strong] * 3, CLAIM) == "unclear"
    assert compare_claim(found(-0.04, -0.02), [], CLAIM) == "slower"


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 8, 31])
def test_student_is_scipys(freedom: int) -> None:
    for value in (0.0, 0.3, 1.7, 12.0):
        assert student_probability(value, freedom) == pytest.approx(stats.t.cdf(value, freedom), abs=1e-12)
    for probability in (0.6, 0.975, 0.9999):
        assert student_quantile(probability, freedom) == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-8)


def test_runs_that_disagree_widen_the_interval() -> None:
    rng = np.random.default_rng(2)
    groups = [CLAIM.group_of(index) for index in range(64)]
    noise = rng.normal(0, 0.005, 64)
    alike = [float(each) for each in noise]
    of_process = (0.0, 0.05, -0.02, 0.08, 0.03, -0.04, 0.0, 0.06)
    apart = [float(each + of_process[CLAIM.run_of(index)]) for index, each in enumerate(noise)]
    for ratios in (alike, apart):
        combined, pooled = combine_groups(ratios, groups, CLAIM, 0.05), interval(ratios, 0.05)
        runs = [interval(ratios[start : start + 8], 0.05).center for start in range(0, 64, 8)]
        student = stats.t.interval(0.95, 7, np.mean(runs), stats.sem(runs))
        assert combined.low == pytest.approx(min(pooled.low, student[0]))
        assert combined.high == pytest.approx(max(pooled.high, student[1]))
        of_groups = group_intervals(ratios, groups, CLAIM)
        assert combined.center == pytest.approx(np.median([each.center for each in of_groups]))
    assert combined.half_width > 2 * pooled.half_width


def test_a_group_in_its_first_run_does_not_count() -> None:
    ratios = [0.01 * index for index in range(20)]
    groups = [CLAIM.group_of(index) for index in range(20)]
    of_groups = group_intervals(ratios, groups, CLAIM)
    assert [each.center for each in of_groups] == [pytest.approx(0.035), pytest.approx(0.115)]
    assert combine_groups(ratios, groups, CLAIM, 0.05).center == pytest.approx(0.075)
    assert combine_groups(ratios[:12], groups[:12], CLAIM, 0.05) == interval(ratios[:12], 0.05)
