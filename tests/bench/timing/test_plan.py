"""The sampling plan: balanced secret orders, and repetitions that fit the cost of a sample."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.timing.intervals import attained_level
from kforecast.bench.timing.looks import level_at
from kforecast.bench.timing.plan import MOST_REPETITIONS, block_orders, plan_for
from kforecast.store.errors import InputError
from kforecast.store.models import Effort

EFFORTS = get_args(Effort)


@given(st.integers(0, 70), st.integers(0, 2**32))
def test_orders_are_balanced_at_every_fourth_block(blocks: int, seed: int) -> None:
    orders = block_orders(blocks, np.random.default_rng(seed))
    assert len(orders) == blocks
    for start in range(0, blocks - 3, 4):
        assert sorted(orders[start : start + 4]) == ["ABBA", "ABBA", "BAAB", "BAAB"]


def test_orders_follow_the_seed_and_nothing_else() -> None:
    draws = {block_orders(8, np.random.default_rng(seed)) for seed in range(300)}
    assert len(draws) == 36, "two permuted fours have 6 orders each"
    assert block_orders(64, np.random.default_rng(5)) == block_orders(64, np.random.default_rng(5))


@pytest.mark.parametrize("effort", EFFORTS)
def test_every_look_can_give_a_bounded_interval(effort: Effort) -> None:
    plan = plan_for(effort, sample_s=1e-3, cases=2)
    assert plan.looks[0] >= 8
    assert list(plan.looks) == sorted(set(plan.looks))
    for look in plan.looks:
        assert attained_level(look, level_at(look, plan, last=look == plan.most_blocks)) > 0


def test_a_claim_fills_its_groups_evenly_at_every_look() -> None:
    plan = plan_for("claim", sample_s=1e-3, cases=1)
    assert plan.groups >= 3
    for look in plan.looks:
        groups = [plan.group_of(index) for index in range(look)]
        assert {groups.count(group) for group in range(plan.groups)} == {look // plan.groups}
        assert attained_level(look // plan.groups, plan.alpha) > 0
    assert [plan.run_of(index) for index in (0, 7, 8, 63)] == [0, 0, 1, 7]
    normal = plan_for("normal", sample_s=1e-3, cases=1)
    assert {normal.group_of(index) for index in range(normal.most_blocks)} == {0}


@given(st.sampled_from(EFFORTS), st.floats(1e-7, 100.0), st.integers(1, 20))
def test_repetitions_are_odd_and_shrink_with_the_cost(effort: Effort, sample_s: float, cases: int) -> None:
    plan = plan_for(effort, sample_s=sample_s, cases=cases)
    assert plan.repetitions % 2 == 1
    assert 1 <= plan.repetitions <= MOST_REPETITIONS
    assert plan_for(effort, sample_s=2 * sample_s, cases=cases).repetitions <= plan.repetitions


def test_margins_are_ratios() -> None:
    plan = plan_for("normal", sample_s=1e-3, cases=1, time_cap_s=7.0)
    assert plan.tie_log2 == pytest.approx(math.log2(1.01))
    assert plan.target_log2 == pytest.approx(math.log2(1.005))
    assert plan.time_cap_s == 7.0


@pytest.mark.parametrize("bad", [{"sample_s": 0.0}, {"sample_s": math.nan}, {"cases": 0}, {"time_cap_s": -1.0}])
def test_a_plan_needs_positive_numbers(bad: dict[str, float]) -> None:
    with pytest.raises(InputError):
        plan_for("quick", **{"sample_s": 1e-3, "cases": 1, **bad})  # type: ignore[arg-type]
