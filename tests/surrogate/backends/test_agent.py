"""The caller's own probabilities, its track record, and the base rate."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kforecast.store.errors import InputError
from kforecast.store.models import Measurement
from kforecast.surrogate.backends.agent import AgentBackend, Own, track_record, worst_misses
from kforecast.surrogate.backends.base_rate import BaseRate
from kforecast.surrogate.calibration.pairs import Pair, pair_of
from kforecast.surrogate.contract import Query, Reply, forecast_of

MakeQuery = Callable[..., Query]
BINS = (0.0, 0.0, 0.05, 0.15, 0.5, 0.2, 0.1, 0.0)


def pair(name: str, bins: tuple[float, ...] = BINS, log2: float | None = 0.3, **more: object) -> Pair:
    low, high = (None, None) if log2 is None else (log2 - 0.1, log2 + 0.1)
    return Pair(name, 0.9, bins, log2 is not None, log2, low, high, **more)  # type: ignore[arg-type]


def test_own_probabilities_become_a_forecast(make_query: MakeQuery) -> None:
    query = make_query()
    answer = AgentBackend("some-model", [Own(p_correct="90%", p_bins=BINS, reasoning="wider loads")]).forecast(query)
    forecast = forecast_of(query, 0, answer)
    assert forecast is not None
    assert (forecast.forecaster, forecast.p_correct, forecast.cost_usd) == ("agent:some-model", 0.9, 0.0)
    assert forecast.p_bins == pytest.approx(BINS)
    assert forecast.log2_p10 < forecast.log2_median < forecast.log2_p90
    assert 0 < forecast.log2_median < 0.5
    assert (forecast.baseline_id, forecast.kernel_id) == (query.baseline.kernel.id, query.candidates[0].kernel.id)


@pytest.mark.parametrize("name", ["", "two words", "a\nb", "x" * 99, "-x"])
def test_an_unfit_name_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="short word"):
        AgentBackend(name, [])


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="sum to 1"):
        AgentBackend("m", [Own(p_correct=0.5, p_bins=BINS), Own(p_correct=0.5, p_bins=(0.01,) * 8)])


def test_each_candidate_needs_its_own(make_query: MakeQuery) -> None:
    with pytest.raises(InputError, match="1 candidates"):
        AgentBackend("m", [Own(p_correct=0.5, p_bins=BINS)] * 2).forecast(make_query())


def test_the_track_record_counts_each_kernel_once() -> None:
    pairs = [
        pair("a", log2=0.3, at="1"), pair("a", log2=-2.0, at="2"), pair("b", log2=-0.4, at="1"), pair("c", log2=None),
        pair("d", log2=0.05),
    ]  # fmt: skip
    record = track_record(pairs)
    assert record.pairs == 4
    assert record.direction_right == 0.5  # d's interval holds 1
    assert record.correct_right == 0.75
    median = 0.3 / 0.5 * 0.5
    errors = [median - 0.3, median + 0.4, median - 0.05]
    assert record.lean == pytest.approx(sum(errors) / 3)
    assert record.absolute_error == pytest.approx(sum(map(abs, errors)) / 3)
    assert "4 verified" in record.line and "50%" in record.line


def test_no_record_says_so() -> None:
    assert track_record([]).line == "no verified forecasts yet"


def test_the_worst_misses_come_first_and_hits_not_at_all() -> None:
    lines = worst_misses(
        [(pair("a"), "fine"), (pair("b", log2=-2.5), "two\nrows a block"), (pair("c", log2=None), "no tail")]
    )
    assert len(lines) == 2
    assert lines[0].startswith("two rows a block: said 1.") and "was 0.18x" in lines[0]
    assert lines[1] == "no tail: said 90% correct, was not"


def test_the_base_rate_says_the_same_of_all_and_may_stand_in(make_query: MakeQuery) -> None:
    reply = Reply(p_correct=0.8, p_bins=BINS)
    query = make_query()
    assert BaseRate(reply).forecast(query).replies == (reply,)
    aside = BaseRate(reply, stands_in_for="learned").forecast(query)
    assert aside.not_trained and aside.forecaster == "base-rate" and "learned" in aside.problems[0]


def measurement(query: Query, **more: object) -> Measurement:
    settings = {
        "id": "m_1", "kernel_id": query.candidates[0].kernel.id, "baseline_id": query.baseline.kernel.id,
        "task_id": query.task.id, "task_name": "scale", "device": "cuda:0", "device_id": "G", "lane": "device-only",
        "launch_mode": "stream", "effort": "normal", "verdict": "ok", "reason": "", "comparison": "faster",
        "log2_speedup": 0.4, "log2_low": 0.3, "log2_high": 0.5, "created_at": "2026", **more,
    }  # fmt: skip
    return Measurement(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({}, True),
        ({"verdict": "incorrect", "log2_speedup": None}, True),
        ({"verdict": "incorrect", "log2_speedup": None, "baseline_id": None}, True),
        ({"quarantine": "below the floor"}, False),
        ({"verdict": "unsupported", "log2_speedup": None}, False),
        ({"baseline_id": "k_other"}, False),
        ({"kernel_id": "k_other"}, False),
        ({"log2_speedup": None}, False),
    ],
)
def test_which_measurements_verify_a_forecast(make_query: MakeQuery, more: dict[str, object], kept: bool) -> None:
    query = make_query()
    forecast = forecast_of(query, 0, AgentBackend("m", [Own(p_correct=0.5, p_bins=BINS)]).forecast(query))
    assert forecast is not None
    found = pair_of(forecast, measurement(query, **more), 0.05)
    assert (found is not None) == kept
    if found is not None:
        assert found.propensity == 0.05 and found.ok == ("verdict" not in more)
