"""The distribution behind 8 bin probabilities: against numerical integration, mirrored, and in its corners."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from kforecast.store.bins import BINS, bin_of_log2
from kforecast.surrogate import density

bins = st.lists(st.floats(0, 1), min_size=8, max_size=8).filter(lambda p: sum(p) > 0.1)
log2 = st.floats(-4, 4)


def normalised(p: list[float]) -> np.ndarray:
    return np.array(p) / sum(p)


@given(bins, log2)
def test_crps_is_the_integral_of_the_squared_difference(p: list[float], truth: float) -> None:
    rows = normalised(p)
    grid = np.unique(np.concatenate([np.linspace(-4, 4, 4001), density.KNOTS, [truth]]))
    middle = (grid[:-1] + grid[1:]) / 2
    cdf = density.cdf(np.tile(rows, (len(middle), 1)), middle)
    expected = float((((cdf - (middle >= truth)) ** 2) * np.diff(grid)).sum())
    assert density.crps(rows, truth)[0] == pytest.approx(expected, abs=2e-6)


def test_crps_against_quadrature() -> None:
    p = normalised([1, 2, 3, 4, 5, 4, 3, 2])
    value, _ = integrate.quad(
        lambda x: (density.cdf(p, x)[0] - (x >= 0.3)) ** 2, -3, 3, points=[*density.KNOTS[1:-1], 0.3], limit=200
    )
    assert density.crps(p, 0.3)[0] == pytest.approx(value, abs=1e-9)


@given(bins, log2)
def test_mirrored_bins_mirror_the_score_the_mean_and_the_quantiles(p: list[float], truth: float) -> None:
    rows = normalised(p)
    assert density.crps(rows, truth)[0] == pytest.approx(density.crps(rows[::-1], -truth)[0], abs=1e-9)
    assert density.mean(rows)[0] == pytest.approx(-density.mean(rows[::-1])[0], abs=1e-9)


@given(bins, st.floats(0.01, 0.99))
def test_the_cdf_at_a_quantile_is_the_level(p: list[float], level: float) -> None:
    rows = normalised(p)
    assert density.cdf(rows, density.quantile(rows, level)[0])[0] == pytest.approx(level, abs=1e-8)


@given(bins)
def test_quantiles_are_ordered(p: list[float]) -> None:
    rows = normalised(p)
    low, middle, high = (density.quantile(rows, level)[0] for level in (0.1, 0.5, 0.9))
    assert -3 <= low <= middle <= high <= 3


@pytest.mark.parametrize("entry", BINS)
def test_a_certain_bin_has_its_midpoint_as_median_and_mean(entry: object) -> None:
    p = np.eye(8)[entry.number - 1]  # type: ignore[attr-defined]
    assert density.quantile(p, 0.5)[0] == pytest.approx(entry.midpoint_log2)  # type: ignore[attr-defined]
    assert density.mean(p)[0] == pytest.approx(entry.midpoint_log2)  # type: ignore[attr-defined]


@given(bins, st.floats(-8, 8))
def test_an_interval_is_open_where_its_end_lies_in_an_open_bin(p: list[float], truth: float) -> None:
    rows = normalised(p)
    low, high = (float(density.quantile(rows, level)[0]) for level in (0.1, 0.9))
    opened = [float(end) for end in density.opened(low, high)]
    assert (opened[1] == math.inf) == (rows[7] > 0.1 + 1e-9) or rows[7] == pytest.approx(0.1)
    assert (opened[0] == -math.inf) == (rows[0] > 0.1 + 1e-9) or rows[0] == pytest.approx(0.1)
    # No closed end moves, and no more than a tenth of what was said lies beyond one.
    assert opened[0] in (low, -math.inf)
    assert opened[1] in (high, math.inf)
    # What lies in a bin that was given more than its share beyond an end is never outside.
    number = bin_of_log2(truth).number - 1
    if rows[number] > 0.2 + 1e-9 and number in (0, 7):
        assert opened[0] <= truth <= opened[1]


@given(st.floats(-3, 3), st.floats(-3, 3))
def test_a_mirrored_interval_is_open_on_the_other_side(one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    mirrored = density.opened(-high, -low)
    assert (-mirrored[1], -mirrored[0]) == density.opened(low, high)


def test_half_and_half_with_a_gap_has_the_middle_of_the_gap_as_median() -> None:
    assert density.quantile([0, 0.5, 0, 0, 0, 0, 0.5, 0], 0.5)[0] == pytest.approx(0.0)


def test_p_faster_counts_the_bins_above_one() -> None:
    assert density.p_faster([[0.1, 0.1, 0.1, 0.2, 0.3, 0.1, 0.1, 0.0]])[0] == pytest.approx(0.5)


def test_a_truth_outside_the_support_costs_its_distance() -> None:
    p = np.eye(8)[7]
    assert density.crps(p, 5.0)[0] == pytest.approx(density.crps(p, 3.0)[0] + 2.0)
