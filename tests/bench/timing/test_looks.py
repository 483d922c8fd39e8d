"""Stopping: the error is spent once, clear cases stop early, unclear ones go on until the cap."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.timing.intervals import attained_level
from kforecast.bench.timing.looks import Continue, Stop, after, clearly_slow, finish, level_at, obrien_fleming, pocock
from kforecast.bench.timing.plan import SamplingPlan, plan_for
from kforecast.store.models import Effort

EFFORTS = get_args(Effort)


def plan(effort: Effort) -> SamplingPlan:
    return plan_for(effort, sample_s=1e-3, cases=1)


def blocks(center: float, sigma: float, count: int, seed: int = 1) -> list[float]:
    """Ratios whose sample is as regular as its distribution: normal quantiles, shuffled."""
    noise = np.random.default_rng(seed).permutation((np.arange(count) + 0.5) / count * 2 - 1)
    return [float(center + 2 * sigma * each) for each in noise]


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.001, 0.2))
def test_spending_grows_from_nothing_to_alpha(one: float, other: float, alpha: float) -> None:
    for spending in (pocock, obrien_fleming):
        assert spending(0.0, alpha) == 0
        assert spending(1.0, alpha) == pytest.approx(alpha)
        assert spending(min(one, other), alpha) <= spending(max(one, other), alpha) + 1e-15


@given(st.sampled_from(EFFORTS), st.integers(1, 64))
def test_levels_of_all_looks_add_up_to_no_more_than_alpha(effort: Effort, last: int) -> None:
    chosen = plan(effort)
    last = min(last, chosen.most_blocks)
    spent = sum(attained_level(look, level_at(look, chosen, last=False)) for look in chosen.looks if look < last)
    assert spent + level_at(last, chosen, last=True) == pytest.approx(chosen.alpha)


def test_pocock_reaches_at_eight_blocks_what_obrien_fleming_does_not() -> None:
    chosen = plan("normal")
    assert attained_level(8, level_at(8, chosen, last=False)) > 0
    assert attained_level(8, level_at(8, chosen, last=False, spending=obrien_fleming)) == 0


def test_a_clear_difference_stops_at_the_first_look() -> None:
    for center, comparison in ((0.5, "faster"), (-0.5, "slower")):
        ratios = blocks(center, 0.004, 8)
        assert after(ratios[:7], plan("normal"), 1.0) == Continue(8)
        found = after(ratios, plan("normal"), 1.0)
        assert isinstance(found, Stop)
        assert (found.reason, found.comparison) == ("decided", comparison)
        assert found.interval is not None
        assert found.interval.low <= center <= found.interval.high
        assert found.level < 0.05


def test_between_looks_it_goes_on_even_if_decided() -> None:
    assert after(blocks(0.5, 0.004, 9), plan("normal"), 1.0) == Continue(16)


def test_a_decided_but_wide_interval_goes_on() -> None:
    wide = blocks(0.05, 0.02, 8)
    assert finish(wide, plan("normal"), [0] * 8).comparison == "faster"
    assert after(wide, plan("normal"), 1.0) == Continue(16)


def test_the_last_look_ends_it_unclear_or_not() -> None:
    found = after(blocks(0.01, 0.2, 32), plan("normal"), 1.0)
    assert isinstance(found, Stop)
    assert (found.reason, found.comparison) == ("last look", "unclear")


def test_the_time_cap_ends_it_with_what_there_is() -> None:
    capped = plan_for("normal", sample_s=1e-3, cases=1, time_cap_s=5.0)
    assert after([], capped, 4.9) == Continue(8)
    assert after([], capped, 5.0) == Stop("time cap", "unclear", None, capped.alpha)
    three = after(blocks(0.3, 0.001, 3), capped, 5.0)
    assert isinstance(three, Stop)
    assert three.comparison == "unclear"
    assert three.interval is not None
    assert not three.interval.bounded
    seven = after(blocks(0.3, 0.001, 7), capped, 6.0)
    assert isinstance(seven, Stop)
    assert (seven.reason, seven.comparison, seven.level) == ("time cap", "faster", capped.alpha)


def test_clearly_slow_is_censored_after_five_blocks() -> None:
    slow = blocks(-1.5, 0.1, 5)
    assert after(slow[:4], plan("quick"), 0.0) == Continue(8)
    found = after(slow, plan("quick"), 0.0)
    assert isinstance(found, Stop)
    assert found.censored
    assert found.comparison == "slower"
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (min(slow), max(slow))
    assert found.interval.confidence == 0.9375


@pytest.mark.parametrize(
    ("ratios", "slow"),
    [
        ([-1.1] * 5, True),
        ([-1.1] * 4, False),
        ([-1.1] * 4 + [-0.9], False),
        ([-1.1, -1.2, -1.3, -2.0, -3.0], False),
        ([1.1] * 5, False),
    ],
    ids=["all beyond", "too few", "one within", "blocks disagree", "fast"],
)
def test_what_counts_as_clearly_slow(ratios: list[float], slow: bool) -> None:
    assert clearly_slow(ratios, plan("quick")) == slow


def test_censoring_errs_rarely_whatever_the_noise() -> None:
    rng = np.random.default_rng(4)
    hits = sum(
        any(clearly_slow(row[:count], plan("quick")) for count in (5, 6, 7, 8))
        for row in rng.normal(0, 50.0, (4000, 8)).tolist()
    )
    assert hits <= 15, "expected about 2.5"


def test_a_claim_needs_every_group() -> None:
    claim = plan("claim")
    groups = [claim.group_of(index) for index in range(32)]
    good = blocks(0.03, 0.002, 32)
    found = after(good, claim, 1.0, groups)
    assert isinstance(found, Stop)
    assert (found.reason, found.comparison) == ("decided", "faster")
    one_equal = [ratio - (0.03 if group == 2 else 0.0) for ratio, group in zip(good, groups, strict=True)]
    assert after(one_equal, claim, 1.0, groups) == Continue(64)
    assert finish(one_equal, claim, groups).comparison == "unclear"
    assert after(good[:24], claim, 1.0) == Continue(32)
    assert finish(good[:24], claim, groups[:24]).comparison == "unclear", "three of four groups are not all"


def test_a_claim_below_its_margin_is_not_faster() -> None:
    claim = plan("claim")
    for percent, said in ((0.2, "tie"), (1.5, "faster"), (-2.0, "slower")):
        found = finish(blocks(math.log2(1 + percent / 100), 0.0008, 64), claim, [claim.group_of(n) for n in range(64)])
        assert found.comparison == said
