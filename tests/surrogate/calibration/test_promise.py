"""The promise: its numbers, what counts as wrong, and that it holds under known laws."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kforecast.surrogate.calibration.binomial import tail_at_most, trials_needed, upper_bound
from kforecast.surrogate.calibration.pairs import Pair, call_of, one_per_kernel
from kforecast.surrogate.calibration.promise import learn, learn_from

ROOT = Path(__file__).resolve().parents[3]
SURE_FASTER = (0, 0, 0, 0, 0.5, 0.5, 0, 0)
SURE_SLOWER = (0, 0, 0.5, 0.5, 0, 0, 0, 0)


def pair(number: int, p_bins: tuple[float, ...] = SURE_FASTER, **more: object) -> Pair:
    settings = {"ok": True, "log2_speedup": 0.3, "log2_low": 0.2, "log2_high": 0.4, **more}
    return Pair(kernel_id=f"k_{number}", p_correct=1.0, p_bins=p_bins, **settings)  # type: ignore[arg-type]


@given(st.integers(0, 60), st.integers(1, 200), st.floats(0.01, 0.99))
def test_the_tail_is_the_binomial_one(wrong: int, trials: int, rate: float) -> None:
    assert tail_at_most(wrong, trials, rate) == pytest.approx(stats.binom.cdf(wrong, trials, rate), rel=1e-8, abs=1e-12)


@given(st.integers(0, 30), st.integers(1, 200), st.sampled_from([0.05, 0.1, 0.2]))
def test_the_bound_is_clopper_and_pearsons(wrong: int, trials: int, delta: float) -> None:
    expected = 1.0 if wrong >= trials else stats.beta.ppf(1 - delta, wrong + 1, trials - wrong)
    assert upper_bound(wrong, trials, delta) == pytest.approx(expected, abs=1e-9)


@given(st.integers(0, 12), st.sampled_from([0.05, 0.1, 0.2]))
def test_the_trials_needed_are_the_fewest(wrong: int, rate: float) -> None:
    needed = trials_needed(wrong, rate, 0.1)
    assert stats.binom.cdf(wrong, needed, rate) <= 0.1 < stats.binom.cdf(wrong, needed - 1, rate)


@pytest.mark.parametrize(("alpha", "needed"), [(0.05, 45), (0.10, 22), (0.20, 11)])
def test_so_many_error_free_pairs_are_needed(alpha: float, needed: int) -> None:
    enough = learn([pair(number) for number in range(needed)], alpha)
    assert enough.threshold == 0.99 and enough.missing == 0 and enough.bound <= alpha
    short = learn([pair(number) for number in range(needed - 1)], alpha)
    assert short.threshold is None and short.missing == 1
    assert learn([], alpha).missing == needed
    assert not short.covers(1.0) and enough.covers(0.99) and not enough.covers(0.98)


def test_several_pairs_of_one_kernel_count_once_and_the_first_stands() -> None:
    early, late = pair(1, at="2026-01-01"), pair(1, SURE_SLOWER, at="2026-01-02")
    assert one_per_kernel([late, early]) == [early]
    assert learn([early] * 100, 0.1).pairs == 1


@pytest.mark.parametrize(
    ("p_bins", "more", "wrong"),
    [
        (SURE_FASTER, {}, False),
        (SURE_FASTER, {"ok": False, "log2_speedup": None, "log2_low": None, "log2_high": None}, True),
        (SURE_FASTER, {"log2_low": -0.4, "log2_high": -0.1}, True),
        (SURE_FASTER, {"log2_low": -0.4, "log2_high": 0.1}, False),
        (SURE_SLOWER, {}, True),
        (SURE_SLOWER, {"ok": False, "log2_speedup": None, "log2_low": None, "log2_high": None}, False),
        (SURE_SLOWER, {"log2_low": -0.4, "log2_high": 0.1}, False),
    ],
)
def test_what_counts_as_wrong(p_bins: tuple[float, ...], more: dict[str, object], wrong: bool) -> None:
    assert pair(1, p_bins, **more).wrong is wrong


def test_an_unlikely_correct_kernel_is_called_slower() -> None:
    call = call_of(0.3, SURE_FASTER)
    assert (call.side, call.confidence) == ("slower", pytest.approx(0.7))


def test_looser_thresholds_are_reached_one_by_one() -> None:
    good = [(0.99, False, 1.0)] * 30 + [(0.85, False, 1.0)] * 30
    assert learn_from(good, 0.1).threshold == 0.84
    bad = [(0.99, False, 1.0)] * 30 + [(0.85, True, 1.0)] * 30
    assert learn_from(bad, 0.1).threshold == 0.99


def test_errors_above_stop_what_lies_below() -> None:
    answers = [(0.99, True, 1.0)] * 22 + [(0.8, False, 1.0)] * 400
    assert learn_from(answers, 0.05).threshold is None


def test_equal_weights_are_plain_counts_whatever_the_rate() -> None:
    answers = [(0.99, index < 2, 1.0) for index in range(80)]
    weighted = [(sure, wrong, 20.0) for sure, wrong, _ in answers]
    assert learn_from(weighted, 0.1) == learn_from(answers, 0.1)


def test_the_first_audits_do_not_drown_what_was_measured_before() -> None:
    before = [(0.99, False, 1.0)] * 45
    assert learn_from([*before, (0.99, False, 20.0)], 0.05).pairs == 46


def test_rare_pairs_among_the_sure_weigh_more_than_many_among_the_unsure() -> None:
    audited = [(0.99, False, 20.0)] * 25
    measured = [(0.6, False, 1.0)] * 200
    assert learn_from([*audited, *measured], 0.1).pairs == (25 * 20 + 200) // 20


def test_an_error_of_little_weight_still_counts_as_one() -> None:
    audited = [(0.99, False, 20.0)] * 25
    measured = [(0.6, index == 0, 1.0) for index in range(200)]
    one = learn_from([*audited, *measured], 0.2)
    assert (one.threshold, one.pairs, one.wrong) == (0.6, 35, 1)


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("simulate_promise", ROOT / "scripts" / "simulate_promise.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["simulate_promise"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2])
def test_the_promise_holds_under_the_hardest_law(simulation: ModuleType, alpha: float) -> None:
    row = simulation.simulate("level", "plain", alpha, 120, draws=200)
    assert row.broken <= row.limit
    assert row.broken == row.trusts  # every trust breaks it here, so the level is what is tested


def test_it_trusts_where_there_is_something_to_trust(simulation: ModuleType) -> None:
    assert simulation.simulate("cliff", "plain", 0.1, 200, draws=50).trusts > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("plan", ["plain", "unequal"])
@pytest.mark.parametrize("law", ["level", "honest", "boaster", "cliff", "perverse"])
def test_the_promise_holds_over_a_thousand_draws(simulation: ModuleType, law: str, plan: str, alpha: float) -> None:
    row = simulation.simulate(law, plan, alpha, 300, draws=1000)
    assert row.broken <= row.limit


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("law", ["honest", "boaster", "cliff"])
def test_the_promise_holds_when_it_is_learned_again_and_again(simulation: ModuleType, law: str, alpha: float) -> None:
    row = simulation.simulate(law, "loop", alpha, 300, draws=500)
    assert row.broken <= row.limit
