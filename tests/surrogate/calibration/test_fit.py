"""Calibration and drift: identity without pairs, shrunk with few, right with many; and only true alarms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kforecast.store.bins import BINS
from kforecast.surrogate.calibration.drift import drift
from kforecast.surrogate.calibration.fit import Calibration, calibrated_bins, calibrated_correct, effective_weights, fit
from kforecast.surrogate.calibration.pairs import Pair
from kforecast.surrogate.contract import Reply


def pairs_of(count: int, *, sharpen: float = 1.0, lean: float = 0.0, odds: float = 0.0, seed: int = 1) -> list[Pair]:
    """Pairs whose truth follows bins q; the forecaster says q ** sharpen, leaning, and has odds too high by `odds`."""
    rng = np.random.default_rng(seed)
    result = []
    for number in range(count):
        truth = rng.dirichlet(np.full(8, 0.7))
        said = np.maximum(truth, 1e-3) ** sharpen * np.exp(lean * np.array([entry.midpoint_log2 for entry in BINS]))
        correct = rng.beta(4, 2)
        ok = bool(rng.random() < correct)
        told = 1 / (1 + np.exp(-(np.log(correct / (1 - correct)) + odds)))
        log2 = BINS[rng.choice(8, p=truth)].midpoint_log2 if ok else None
        result.append(
            Pair(f"k_{number}", float(told), tuple(map(float, said / said.sum())), ok, log2, at=f"{number:06}")
        )
    return result


def test_without_pairs_it_is_the_identity_and_promises_nothing() -> None:
    reply = Reply(p_correct=0.7, p_bins=(0, 0, 0, 0.2, 0.8, 0, 0, 0))
    calibration = fit(pairs_of(9))
    assert calibration.state == "none" and calibration.pairs == 9
    assert calibration.apply(reply) is reply


def test_few_pairs_keep_the_atlas_and_some_move_it_a_little() -> None:
    prior = Calibration("atlas", (0.5, 0.1), (0.8, -0.2))
    few = fit(pairs_of(5), prior)
    assert (few.state, few.bins, few.correct) == ("atlas", prior.bins, prior.correct)
    distances = [abs(fit(pairs_of(count), prior).bins[0] - 0.5) for count in (10, 100, 2000)]
    assert distances == sorted(distances)


@pytest.mark.parametrize(("sharpen", "lean"), [(2.0, 0.0), (0.7, 0.0), (1.0, 0.8)])
def test_many_pairs_find_the_temperature_and_the_lean(sharpen: float, lean: float) -> None:
    calibration = fit(pairs_of(3000, sharpen=sharpen, lean=lean))
    assert calibration.state == "local"
    assert calibration.bins[0] == pytest.approx(1 / sharpen, abs=0.12)
    assert calibration.bins[1] == pytest.approx(-lean / sharpen, abs=0.12)


def test_many_pairs_find_the_bias_of_p_correct() -> None:
    assert fit(pairs_of(3000, odds=1.0)).correct == pytest.approx((1.0, -1.0), abs=0.2)


def test_a_calibrated_reply_is_a_reply() -> None:
    reply = Reply(p_correct=1.0, p_bins=(0, 0, 0, 0, 1, 0, 0, 0), reasoning="r", raw_sum=0.9)
    result = fit(pairs_of(200, sharpen=2.0)).apply(reply)
    assert sum(result.p_bins) == pytest.approx(1)
    assert 0 < result.p_bins[0] < result.p_bins[4] < 1 and result.p_correct < 1
    assert (result.reasoning, result.raw_sum) == ("r", 0.9)


def test_identity_parameters_change_next_to_nothing() -> None:
    p = np.array([[0.1, 0.1, 0.1, 0.2, 0.3, 0.1, 0.1, 0.0]])
    assert calibrated_bins(p, (1.0, 0.0)) == pytest.approx(p, abs=2e-3)
    assert calibrated_correct([0.3], (1.0, 0.0)) == pytest.approx([0.3], abs=2e-3)


def test_effective_weights_sum_to_the_effective_size() -> None:
    assert effective_weights([1.0] * 7).tolist() == pytest.approx([1.0] * 7)
    weights = effective_weights([1.0, 1.0, 0.1])
    assert weights.sum() == pytest.approx(12**2 / 102)
    assert weights[2] == pytest.approx(10 * weights[0])


def test_pairs_without_any_correct_kernel_leave_the_bins_alone() -> None:
    broken = [replace(pair, ok=False, log2_speedup=None) for pair in pairs_of(40)]
    assert fit(broken).bins == (1.0, 0.0)


def test_no_drift_where_nothing_changed() -> None:
    assert not any(drift(pairs_of(200, seed=seed)).alarm for seed in range(40))


def test_a_forecaster_whose_kernels_all_turn_out_slower_raises_the_alarm() -> None:
    pairs = pairs_of(200)
    turned = [replace(pair, ok=True, log2_speedup=-0.3) for pair in pairs[-30:]]
    found = drift([*pairs[:-30], *turned])
    assert found.alarm
    assert "faster" in found.reason or "correct" in found.reason
    assert found.faster < -3


def test_too_few_pairs_raise_no_alarm() -> None:
    found = drift(pairs_of(39))
    assert not found.alarm and "39 of 40" in found.reason
