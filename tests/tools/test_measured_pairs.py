"""What measurements of other pairs say of a pair: through common baselines, and never more than they can."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.devices.cpu.machine import device_id
from kforecast.store import forecasts, kernels, measurements, tasks
from kforecast.store.clock import utc_now
from kforecast.store.database import Store
from kforecast.store.identity import new_id
from kforecast.store.models import Measurement
from kforecast.store.readings import Reading
from kforecast.tools.forecast import forecast
from kforecast.tools.forecast_results import ForecastResult
from kforecast.tools.hits import forecast_hit
from kforecast.tools.kernels import Asked, load_file
from kforecast.tools.ratios import Ratios
from kforecast.tools.search.events import OwnForecast
from kforecast.tools.search.forecasting import ForecastAsk
from kforecast.tools.search.product_forecasts import ProductForecaster

Sources = dict[str, str]
Put = Callable[..., Measurement]
UP = (0.0, 0.0, 0.0, 0.01, 0.01, 0.02, 0.09, 0.87)


@pytest.fixture
def put(sources: Sources, store: Store) -> Put:
    """Save a measurement of one of the sources against another (or none): log2 S, half its interval, what else."""

    def one(name: str, against: str | None, log2: float | None, half: float = 0.1, **more: Any) -> Measurement:
        sides = [load_file(Path(sources[side]), Asked()) for side in (name, against) if side is not None]
        for side in sides:
            tasks.save(store, side.task)
            kernels.save(store, side.kernel)
        values: dict[str, Any] = {
            "id": new_id("m"), "kernel_id": sides[0].kernel.id, "task_id": sides[0].task.id, "task_name": "double",
            "baseline_id": None if against is None else sides[1].kernel.id, "device": "cpu", "device_id": device_id(),
            "lane": "host-code", "launch_mode": "process", "effort": "normal", "verdict": "ok", "reason": "",
            "log2_speedup": log2, "time_us": 100.0, "baseline_us": None if log2 is None else 100.0 * 2.0**log2,
            "log2_low": None if log2 is None else log2 - half, "log2_high": None if log2 is None else log2 + half,
            "noise_pct": 10.0, "created_at": utc_now(),
        }  # fmt: skip
        made = Measurement(**{**values, **more})
        measurements.save(store, made)
        return made

    return one


def ask(sources: Sources, *names: str, baseline: str, **more: Any) -> list[ForecastResult]:
    results = forecast([sources[name] for name in names], baseline=sources[baseline], **more)
    assert isinstance(results, list)
    return results


def test_one_pair_says_little_of_others_and_least_of_another_baseline(sources: Sources, put: Put) -> None:
    put("once", "base", 2.97, 0.3)
    results = ask(sources, "sum", "unrolled", "backwards", baseline="once")
    for result in results:
        assert result.p_faster is not None and result.speedup_median is not None
        assert 0.3 < result.p_faster < 0.6, "what was measured against another baseline makes nobody faster than it"
        assert 0.6 < result.speedup_median < 1.4
        assert (result.speedup_p10 or 0) < 0.6 and (result.speedup_p90 or 9) > 1.3
        assert result.p_correct is not None and 0.4 < result.p_correct < 0.9
    assert len({result.speedup_median for result in results}) > 1, "those more like the baseline are nearer to a tie"


def test_many_pairs_say_more_than_one(sources: Sources, verify: Callable[..., object]) -> None:
    said: list[float] = []
    for start, count in ((0, 1), (1, 9), (10, 20)):
        verify(count, start=start)
        (result,) = ask(sources, "once", baseline="base", backend="base-rate")
        said.append(result.p_faster or 0.0)
    assert said == sorted(said)
    assert said[0] < 0.75
    assert said[-1] > 0.85


def test_a_kernel_found_right_is_expected_to_be_right_again(sources: Sources, put: Put) -> None:
    put("once", None, None)
    put("sum", None, None, verdict="incorrect", time_us=None)
    right, wrong, unknown = ask(sources, "once", "sum", "unrolled", baseline="base")
    assert right.p_correct is not None and right.p_correct > 0.95
    assert wrong.p_correct is not None and wrong.p_correct < 0.05
    assert (wrong.decision, wrong.answer, wrong.backend, wrong.speedup_median) == ("drop", "slower", "measured", None)
    assert unknown.p_correct is not None and 0.2 < unknown.p_correct < 0.8


def test_a_pair_is_told_from_two_measurements_against_one_baseline(sources: Sources, put: Put, store: Store) -> None:
    first, second = put("once", "base", 2.97, 0.3), put("sum", "base", 1.0, 0.4)
    (result,) = ask(sources, "sum", baseline="once", detail="brief")
    assert result.backend == result.calibration.state == "measured"
    assert result.speedup_median == pytest.approx(2.0**-1.97, rel=1e-3)
    half = 0.5 * 1.2816 / 1.96
    ends = [2.0 ** (-1.97 - half), 2.0 ** (-1.97 + half)]
    assert [result.speedup_p10, result.speedup_p90] == pytest.approx(ends, rel=1e-3)
    assert (result.decision, result.answer, result.already_measured) == ("drop", "slower", None)
    assert first.id in result.reason and second.id in result.reason
    assert result.forecast_id is None and forecasts.find(store) == [], "what follows from measurements is no forecast"
    (turned,) = ask(sources, "once", baseline="sum")
    assert turned.speedup_median == pytest.approx(2.0**1.97, rel=1e-3)
    assert (turned.decision, turned.answer) == ("measure", "faster"), "only a measured pair is a win"


def test_a_measured_pair_is_told_as_it_was_measured(sources: Sources, put: Put) -> None:
    made = put("once", "base", 0.5)
    (result,) = ask(sources, "once", baseline="base")
    assert (result.decision, result.answer, result.already_measured) == ("trust", "faster", made.id)
    assert result.speedup_median == pytest.approx(2.0**0.5, rel=1e-3)
    assert made.id in result.next and "as measured" in result.summary


def test_candidates_that_were_measured_show_it_and_nobody_is_asked_of_them(sources: Sources, put: Put) -> None:
    put("once", "base", 1.0)
    put("sum", "once", 0.5)
    results = ask(sources, "sum", "unrolled", "once", baseline="base", detail="brief")
    assert [result.backend for result in results] == ["measured", "base-rate", "measured"]
    assert row_of(results[0].brief, "c1")[1] == "2.828"
    assert row_of(results[0].brief, "c2")[1] == "?"
    assert row_of(results[0].brief, "c3")[1:3] == ["2.000", "1.87..2.14"]
    assert "own=" not in results[0].next + results[2].next, "own probabilities would be refused"


def test_a_search_measures_what_was_measured_elsewhere_and_spreads_where_a_forecast_is_open(
    sources: Sources, put: Put, store: Store
) -> None:
    put("once", "base", 2.97, 0.3)
    kernel = {name: load_file(Path(sources[name]), Asked()) for name in ("base", "once", "sum")}
    forecaster = ProductForecaster(store, kernel["base"].task, kernel["base"].kernel, "cpu")
    known, own = (
        ForecastAsk(name, kernel[name].kernel, kernel["base"].kernel, "cpu", own=said)
        for name, said in (("once", None), ("sum", OwnForecast(p_correct=0.9, p_bins=UP, forecaster="fable")))
    )
    kernels.save(store, own.kernel)
    once, high = forecaster.outlooks([known, own])
    assert once.decision == "measure"
    assert once.log2_median == pytest.approx(2.97, abs=0.01)
    assert once.p_correct is not None and once.p_correct > 0.95
    assert high.log2_p10 is not None and high.log2_p90 is not None
    assert high.log2_p10 < (high.log2_median or 0.0) < high.log2_p90


def row_of(brief: str | None, name: str) -> list[str]:
    assert brief is not None
    return next(line.split() for line in brief.splitlines() if line.startswith(f"{name} "))


def test_the_brief_goes_by_pairs_and_by_effort_not_by_the_newest_time(sources: Sources, put: Put) -> None:
    """As it went once: a claim said 0.96, and the times of two noisy runs 1.75."""
    put("once", "base", 2.72, 0.4, effort="claim", time_us=319.0, baseline_us=3309.0)
    put("sum", "base", 2.66, 0.5, effort="claim", time_us=340.0)
    put("once", "base", 2.51, 0.9, effort="quick", time_us=594.0, baseline_us=4027.0, noise_pct=114.0)
    (result,) = ask(sources, "unrolled", baseline="once", detail="brief")
    assert "baseline: 319 us" in (result.brief or "")
    rows = {row[1]: row for row in (row_of(result.brief, name) for name in ("s1", "s2"))}
    assert {"0.959", "0.152"} == set(rows)
    low, high = map(float, rows["0.959"][2].split(".."))
    assert [low, high] == pytest.approx([2.0 ** (-0.06 - 0.64), 2.0 ** (-0.06 + 0.64)], rel=0.01)
    assert float(rows["0.959"][3]) == pytest.approx(319 / 2.0**-0.06, rel=0.01)
    put("sum", "once", -0.058, 0.2, effort="claim")
    put("sum", "once", 0.8, 0.1, effort="quick")
    (direct,) = ask(sources, "unrolled", baseline="once", detail="brief")
    (row,) = (row for row in (row_of(direct.brief, name) for name in ("s1", "s2")) if row[1] != "0.152")
    assert row[1:3] == ["0.961", "0.836..1.1"]


def test_times_of_different_runs_are_marked(sources: Sources, put: Put) -> None:
    put("base", None, None, time_us=100.0)
    put("once", None, None, time_us=50.0)
    (result,) = ask(sources, "sum", baseline="base", detail="brief")
    assert row_of(result.brief, "s1")[1:3] == ["2.000", "unpaired"]
    assert "times of different runs" in (result.brief or "")
    assert result.p_faster is not None and result.p_faster < 0.55, "and count for nothing"


def test_a_forecast_of_more_than_four_is_not_refuted_by_eight(sources: Sources, put: Put, store: Store) -> None:
    (result,) = ask(sources, "once", baseline="base", own=[{"p_correct": 0.93, "p_bins": UP, "forecaster": "fable"}])
    assert result.speedup_p10 is not None and result.speedup_p10 < 4
    assert result.speedup_p90 is None, "the open bin has no end"
    assert "to over 4)" in result.summary
    assert forecast_hit(store, put("once", "base", 2.974)) is True
    assert forecast_hit(store, put("once", "base", 5.0)) is True
    assert forecast_hit(store, put("once", "base", 1.0)) is False


def test_what_is_far_too_slow_was_within_an_open_end_too(sources: Sources, put: Put, store: Store) -> None:
    ask(sources, "once", baseline="base", own=[{"p_correct": 0.9, "p_bins": UP[::-1], "forecaster": "fable"}])
    assert forecast_hit(store, put("once", "base", -4.0)) is True
    assert forecast_hit(store, put("once", "base", 0.5)) is False


def reading(kernel: str, baseline: str, log2: float, half: float, age: int, **more: Any) -> Reading:
    values: dict[str, Any] = {
        "id": f"m{age}", "task_name": "t", "kernel_id": kernel, "baseline_id": baseline, "verdict": "ok",
        "log2_speedup": log2, "time_us": 1.0, "baseline_us": 1.0, "percent_of_floor": None, "launch_mode": "process",
        "created_at": "", "censored": 0, "effort": "normal", "noise_pct": None, "log2_low": log2 - half,
        "log2_high": log2 + half,
    }  # fmt: skip
    return Reading(**{**values, **more})


edges = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sampled_from("abcde"), st.floats(0.01, 1.0)), min_size=1, max_size=12
)


@given(edges)
def test_chains_of_exact_pairs_give_exact_ratios(pairs: list[tuple[str, str, float]]) -> None:
    speed = {name: number * 0.7 for number, name in enumerate("abcde")}
    found = [reading(a, b, speed[a] - speed[b], half, age) for age, (a, b, half) in enumerate(pairs)]
    ratios = Ratios(found)
    for a in "abcde":
        for b in "abcde":
            ratio, turned = ratios.of(a, b), ratios.of(b, a)
            assert (ratio is None) == (turned is None)
            if ratio is not None and turned is not None:
                assert ratio.log2 == pytest.approx(speed[a] - speed[b])
                assert ratio.low <= ratio.log2 <= ratio.high
                assert (ratio.low, ratio.high) == pytest.approx((-turned.high, -turned.low))
                assert (a == b) == (ratio.of == ())


@pytest.mark.parametrize("order", [1, -1])
def test_effort_goes_before_width_and_width_before_age(order: int) -> None:
    quick = reading("a", "b", 1.0, 0.01, 1, effort="quick")
    wide, tight = reading("a", "b", 2.0, 0.5, 2, effort="claim"), reading("b", "a", -3.0, 0.1, 3, effort="claim")
    rough = reading("a", "b", 4.0, 0.01, 4, effort="claim", censored=1)
    ratio = Ratios([quick, wide, tight, rough][::order]).of("a", "b")
    assert ratio is not None
    assert (ratio.log2, ratio.of) == (3.0, ("m3",))


def test_an_unbounded_interval_is_passed_by_where_there_is_a_bounded_way() -> None:
    chain = [reading("a", "c", 1.0, 0.5, 1), reading("b", "c", 0.5, 0.5, 2), reading("a", "d", 9.0, 0.1, 3)]
    chain.append(reading("b", "d", 0.0, 0.1, 4, log2_low=None))
    ratio = Ratios(chain).of("a", "b")
    assert ratio is not None
    assert ratio.of in (("m1", "m2"), ("m2", "m1"))
    assert re.fullmatch(r"m\d", ratio.of[0])
