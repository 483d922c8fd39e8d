from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.store.errors import InputError
from kforecast.store.models import CaseResult, Measurement, Mismatch, Request
from kforecast.tools.results import MeasureResult, measure_result, pending_result, rank


def measurement(**changes: Any) -> Measurement:
    values: dict[str, Any] = {
        "id": "m_1",
        "kernel_id": "k_candidate",
        "baseline_id": "k_seed",
        "task_id": "t_1",
        "task_name": "softmax_rows",
        "device": "cpu",
        "device_id": "cpu-1",
        "lane": "host-code",
        "launch_mode": "process",
        "effort": "normal",
        "verdict": "ok",
        "reason": "",
        "comparison": "faster",
        "log2_speedup": 1.0,
        "log2_low": 0.9,
        "log2_high": 1.1,
        "confidence": 0.95,
        "cases": (
            CaseResult(case="R=1", time_us=10.0, baseline_us=40.0, log2_speedup=2.0, log2_low=1.9, log2_high=2.1),
            CaseResult(case="R=2", time_us=40.0, baseline_us=40.0, log2_speedup=0.0, log2_low=-0.1, log2_high=0.1),
        ),
        "time_us": 20.0,
        "baseline_us": 40.0,
        "noise_pct": 0.5,
        "created_at": "2026-11-30T12:00:00Z",
    }
    return Measurement(**{**values, **changes})


FAILED = {"comparison": "none", "cases": (), "noise_pct": None} | dict.fromkeys(
    ("log2_speedup", "log2_low", "log2_high", "confidence", "time_us", "baseline_us")
)


def test_a_win_says_how_much_and_how_sure() -> None:
    result = measure_result(measurement(), name="fast.c", baseline_name="the seed kernel")
    assert result.summary == (
        "fast.c is correct and faster than the seed kernel: S = 2.00 (95% interval 1.87 to 2.14); 20.0 us cold on cpu."
    )
    assert (result.speedup, result.verdict, result.comparison) == (2.0, "ok", "faster")
    assert result.worst_case is not None
    assert (result.worst_case.case, result.worst_case.speedup) == ("R=2", 1.0)
    assert "k_candidate" in result.next


@pytest.mark.parametrize(
    ("comparison", "words"),
    [("slower", "slower than B"), ("tie", "ties with B"), ("unclear", "not yet told from B")],
)
def test_every_comparison_has_words(comparison: str, words: str) -> None:
    result = measure_result(measurement(comparison=comparison), name="a.c", baseline_name="B")
    assert words in result.summary
    assert result.comparison == comparison


def test_without_a_baseline_nothing_is_compared() -> None:
    bare = measurement(
        baseline_id=None,
        comparison="none",
        log2_speedup=None,
        log2_low=None,
        log2_high=None,
        baseline_us=None,
        cases=(),
    )
    result = measure_result(bare, name="a.c")
    assert "nothing to compare it with" in result.summary
    assert (result.speedup, result.worst_case, result.baseline_us) == (None, None, None)


def test_incorrect_names_the_first_wrong_element() -> None:
    mismatch = Mismatch(
        case="R=7 C=33",
        tensor="y",
        index=(3,),
        got="0",
        want="1",
        error=math.inf,
        limit=0.1,
        wrong=1,
        total=7,
        explanation="",
    )
    result = measure_result(measurement(verdict="incorrect", mismatch=mismatch, **FAILED), name="a.c")
    assert result.summary.startswith("a.c is incorrect: in case R=7 C=33, y[3] is 0 where 1 was wanted")
    assert result.mismatch is not None
    assert result.mismatch.error is None


@pytest.mark.parametrize(
    "verdict",
    ["compile_error", "launch_error", "incorrect", "timeout", "crashed", "tampered", "impossible", "unsupported"],
)
def test_failures_have_no_numbers_and_a_next_step(verdict: str) -> None:
    result = measure_result(measurement(verdict=verdict, reason="because", **FAILED), name="a.c")
    assert "because" in result.summary
    assert len(result.next) > 20
    numbers = (result.speedup, result.speedup_low, result.time_us, result.baseline_us, result.percent_of_floor)
    assert numbers == (None,) * 5
    assert not result.ok


def test_quarantine_is_said_and_labelled() -> None:
    result = measure_result(measurement(quarantine="faster than the floor allows"), name="a.c")
    assert "do not believe it yet" in result.summary
    assert result.labels == ("quarantined",)


def test_a_censored_ratio_is_called_rough() -> None:
    result = measure_result(measurement(comparison="slower", censored=True), name="a.c")
    assert "rough reading" in result.summary
    assert "censored" in result.labels


def test_the_answer_is_plain_json_without_infinities() -> None:
    result = measure_result(measurement(log2_high=math.inf), name="a.c")
    assert result.speedup_high is None
    assert "Infinity" not in result.model_dump_json()


def request(**changes: Any) -> Request:
    values: dict[str, Any] = {
        "id": "r_1",
        "kind": "measure",
        "device": "cpu",
        "payload": {},
        "state": "working",
        "client": "cli:1",
        "created_at": "2026-11-30T12:00:00Z",
    }
    return Request(**{**values, **changes})


def test_a_pending_request_is_working_and_says_when_to_ask() -> None:
    result = pending_result(request(state="queued"), name="a.c", queue_position=3, eta_s=12.0)
    assert (result.state, result.queue_position, result.eta_s, result.verdict) == ("working", 3, 12.0, None)
    assert result.poll_after_s is not None
    assert "r_1" in result.next


def test_a_failed_request_carries_its_error() -> None:
    error = InputError("the baseline does not compile", value="b.c", next_step="Give another one.").as_dict()
    result = pending_result(request(state="failed", error=error), name="a.c")
    assert (result.state, result.next) == ("failed", "Give another one.")
    assert "the baseline does not compile" in result.summary


def answer(speedup: float | None = None, spread: float = 0.01, **changes: Any) -> MeasureResult:
    values: dict[str, Any] = {"summary": "", "next": "", "state": "completed", "verdict": "ok", "time_us": 1.0}
    if speedup is not None:
        values |= {"speedup": speedup, "speedup_low": speedup * (1 - spread), "speedup_high": speedup * (1 + spread)}
    return MeasureResult(**{**values, **changes})


def test_ranking_shares_ranks_where_intervals_overlap() -> None:
    results = [answer(1.0), answer(2.0), answer(verdict="incorrect"), answer(1.995), answer(0.5)]
    rows = [(row.index, row.rank, row.shared) for row in rank(results)]
    assert rows == [(1, 1, True), (3, 1, True), (0, 3, False), (4, 4, False), (2, None, False)]


def test_ranking_without_ratios_uses_times_and_their_noise() -> None:
    results = [
        answer(time_us=10.0, noise_pct=1.0),
        answer(time_us=10.1, noise_pct=1.0),
        answer(time_us=5.0, noise_pct=1.0),
    ]
    assert [(row.index, row.rank) for row in rank(results)] == [(2, 1), (0, 2), (1, 2)]


def test_errors_and_quarantined_results_are_not_ranked() -> None:
    error = InputError("no such file", value="x.c", next_step="Check the path.")
    results = [error, answer(9.0, labels=("quarantined",)), answer(1.0)]
    assert [(row.index, row.rank) for row in rank(results)] == [(2, 1), (0, None), (1, None)]


@given(st.lists(st.tuples(st.floats(0.01, 100), st.floats(0, 0.5)), min_size=1, max_size=12))
def test_a_ranking_keeps_everybody_and_never_puts_a_slower_one_above(rows: list[tuple[float, float]]) -> None:
    ranked = rank([answer(speedup, spread) for speedup, spread in rows])
    assert sorted(row.index for row in ranked) == list(range(len(rows)))
    speedups = [rows[row.index][0] for row in ranked]
    assert speedups == sorted(speedups, reverse=True)
    ranks = [row.rank or 0 for row in ranked]
    assert ranks == sorted(ranks)
    assert ranks[0] == 1
