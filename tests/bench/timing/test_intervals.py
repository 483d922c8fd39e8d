"""Intervals against scipy, against brute force, and by their promises at few blocks."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kforecast.bench.timing.intervals import (
    attained_level,
    bootstrap_interval,
    interval,
    median_interval,
    range_interval,
    signed_rank_interval,
)
from kforecast.store.errors import InputError

VALUES = st.lists(st.integers(-1000, 1000).map(lambda n: n / 64), min_size=1, max_size=14)


@pytest.mark.parametrize("count", [6, 8, 11, 15])
@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.0179])
def test_signed_rank_interval_is_scipys_test_inverted(count: int, alpha: float) -> None:
    data = np.random.default_rng(count).standard_t(3, count)
    found = signed_rank_interval(data.tolist(), alpha)
    if not found.bounded:
        assert 2.0 ** (1 - count) > alpha
        return

    def p_value(shift: float) -> float:
        return float(stats.wilcoxon(data - shift, method="exact").pvalue)

    step = 1e-9
    assert p_value(found.low - step) <= alpha < p_value(found.low + step)
    assert p_value(found.high + step) <= alpha < p_value(found.high - step)
    assert 1 - found.confidence == pytest.approx(p_value(found.low - step))


@pytest.mark.parametrize("count", [5, 9, 12])
def test_confidence_is_the_share_of_sign_patterns_by_brute_force(count: int) -> None:
    magnitudes = np.random.default_rng(1).exponential(1.0, count) + 0.01
    covered = 0
    found = signed_rank_interval(magnitudes.tolist(), 0.1)
    for signs in itertools.product((-1.0, 1.0), repeat=count):
        each = signed_rank_interval((magnitudes * signs).tolist(), 0.1)
        covered += each.low <= 0 <= each.high
    assert covered / 2**count == pytest.approx(found.confidence)


def test_center_is_the_median_of_the_pairwise_means() -> None:
    assert signed_rank_interval([1.0, 2.0, 10.0], 0.5).center == 3.75
    # The example of Hollander & Wolfe's depression scores, as R's wilcox.test(conf.int = TRUE) prints it: 96.1%.
    scores = [-0.952, 0.147, -1.022, -0.43, -0.62, -0.59, -0.49, 0.08, -0.01]
    found = signed_rank_interval(scores, 0.05)
    assert found.center == pytest.approx(-0.46)
    assert (found.low, found.high) == (pytest.approx(-0.786), pytest.approx(-0.01))
    assert found.confidence == pytest.approx(0.9609375)


@given(VALUES, st.sampled_from([0.3, 0.05, 0.01]))
def test_intervals_hold_their_center_and_move_with_the_data(values: list[float], alpha: float) -> None:
    for method in (interval, median_interval):
        found = method(values, alpha)
        assert found.low <= found.center <= found.high
        assert found.confidence >= 1 - alpha
        mirrored = method([-value for value in values], alpha)
        assert (mirrored.low, mirrored.center, mirrored.high) == (-found.high, -found.center, -found.low)
        moved = method([value + 8 for value in values], alpha)
        assert (moved.low, moved.high) == (found.low + 8, found.high + 8)


@given(st.integers(1, 40), st.floats(1e-6, 0.5))
def test_too_few_values_give_an_unbounded_interval_that_says_so(count: int, alpha: float) -> None:
    values = [float(index) for index in range(count)]
    for method in (signed_rank_interval, median_interval):
        found = method(values, alpha)
        assert found.bounded == (2.0 ** (1 - count) <= alpha)
        if not found.bounded:
            assert found.confidence == 1.0
            needed = int(found.method.rsplit(" ", 1)[1])
            assert 2.0 ** (1 - needed) <= alpha < 2.0 ** (2 - needed)


@given(st.integers(1, 70), st.floats(1e-6, 0.5))
def test_the_attained_level_is_what_the_interval_spends(count: int, alpha: float) -> None:
    level = attained_level(count, alpha)
    assert 0 <= level <= alpha
    if count < 16:
        found = signed_rank_interval([float(index) ** 2 for index in range(count)], alpha)
        assert level == pytest.approx(1 - found.confidence, abs=1e-12)


@pytest.mark.parametrize("count", [6, 10, 25, 64])
@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.01])
def test_median_interval_is_the_binomial_one(count: int, alpha: float) -> None:
    data = np.random.default_rng(count).lognormal(size=count)
    found = median_interval(data.tolist(), alpha)
    expected = stats.quantile_test(data, p=0.5).confidence_interval(1 - alpha)
    if found.bounded:
        assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
        below = int(np.searchsorted(np.sort(data), found.low))
        assert 1 - found.confidence == pytest.approx(stats.binomtest(below, count, 0.5).pvalue)
    else:
        assert math.isnan(expected.low) or math.isnan(expected.high)


@pytest.mark.parametrize("count", [16, 32, 64])
def test_bootstrap_interval_lies_near_scipys_bca_of_the_same_statistic(count: int) -> None:
    data = np.random.default_rng(count).normal(0, 1, count)

    def pseudo_median(values: np.ndarray, axis: int) -> np.ndarray:
        first, second = np.triu_indices(values.shape[axis])
        return np.median((values.take(first, axis) + values.take(second, axis)) / 2, axis=axis)

    found = bootstrap_interval(data.tolist(), 0.05)
    other = stats.bootstrap((data,), pseudo_median, n_resamples=2000, batch=200, rng=1).confidence_interval
    assert found.center == pytest.approx(float(pseudo_median(data, 0)))
    width = other.high - other.low
    assert found.low == pytest.approx(other.low, abs=0.25 * width)
    assert found.high == pytest.approx(other.high, abs=0.25 * width)
    assert 0.8 < (found.high - found.low) / width < 1.6


def test_bootstrap_is_seeded_and_scales_with_the_data() -> None:
    data = np.random.default_rng(3).normal(0, 1, 24).tolist()
    found = bootstrap_interval(data, 0.05)
    assert found == bootstrap_interval(data, 0.05)
    assert found != bootstrap_interval(data, 0.05, seed=1)
    scaled = bootstrap_interval([4 * value + 1 for value in data], 0.05)
    assert (scaled.low, scaled.high) == (pytest.approx(4 * found.low + 1), pytest.approx(4 * found.high + 1))
    assert interval(data, 0.05) == found
    assert interval(data[:15], 0.05) == signed_rank_interval(data[:15], 0.05)


def test_values_that_mostly_tie_fall_back_to_the_exact_interval() -> None:
    for values in ([1.0] * 20, [0.0] * 14 + [1.0, -1.0] * 3, [0.0, 1.0] * 10):
        found = interval(values, 0.05)
        assert found == signed_rank_interval(values, 0.05)
    assert (interval([1.0] * 20, 0.05).low, interval([1.0] * 20, 0.05).high) == (1.0, 1.0)


def test_exact_interval_covers_under_heavy_ties() -> None:
    rng = np.random.default_rng(8)
    hits = 0
    for _ in range(1000):
        found = signed_rank_interval(np.round(rng.normal(0, 1, 9)).tolist(), 0.05)
        hits += found.low <= 0 <= found.high
    assert hits >= 945


def test_range_has_the_confidence_of_its_signs() -> None:
    found = range_interval([3.0, 1.0, 2.0, 5.0, 4.0])
    assert (found.low, found.center, found.high, found.confidence) == (1.0, 3.0, 5.0, 0.9375)


@pytest.mark.parametrize(("values", "alpha"), [([], 0.05), ([1.0, math.nan], 0.05), ([math.inf], 0.05), ([1.0], 0.0)])
def test_nonsense_is_refused(values: list[float], alpha: float) -> None:
    for method in (interval, median_interval):
        with pytest.raises(InputError):
            method(values, alpha)
