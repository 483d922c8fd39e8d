from __future__ import annotations

from typing import Any

import click
import pytest

from kforecast.app.measure_page import measurement_page, ranking_page
from kforecast.store.errors import InputError
from kforecast.tools.results import CaseAnswer, MeasureResult


def case(name: str, speedup: float) -> CaseAnswer:
    return CaseAnswer(
        case=name,
        time_us=41.2,
        time_warm_l2_us=38.0,
        baseline_us=41.2 * speedup,
        speedup=speedup,
        speedup_low=speedup * 0.99,
        speedup_high=speedup * 1.01,
        percent_of_floor=63.0,
    )


def result(**changes: Any) -> MeasureResult:
    values: dict[str, Any] = {
        "summary": "a.c is correct and faster than the seed kernel.",
        "next": "Measure the next idea.",
        "state": "completed",
        "verdict": "ok",
        "comparison": "faster",
        "speedup": 2.31,
        "speedup_low": 2.25,
        "speedup_high": 2.38,
        "time_us": 41.2,
        "time_warm_l2_us": 38.0,
        "baseline_us": 95.1,
        "percent_of_floor": 63.0,
        "noise_pct": 0.8,
        "lane": "host-code",
        "isolation": "user namespace",
        "task": "softmax_rows",
        "device": "cpu",
        "name": "a.c",
        "kernel_id": "k_0123456789abcdef0123",
        "baseline_id": "k_seed",
        "measurement_id": "m_0123456789abcdef0123",
    }
    return MeasureResult(**{**values, **changes})


def failed(verdict: str, **changes: Any) -> MeasureResult:
    numbers = ("speedup", "speedup_low", "speedup_high", "time_us", "time_warm_l2_us", "baseline_us", "noise_pct")
    none = dict.fromkeys((*numbers, "percent_of_floor"))
    return result(verdict=verdict, comparison="none", summary=f"a.c: {verdict}", **{**none, **changes})


def page(text: str) -> str:
    """The page without styles, every line within 80 columns."""
    plain = click.unstyle(text)
    assert max(len(line) for line in plain.splitlines()) <= 80
    return plain


def test_a_good_measurement_in_full() -> None:
    text = page(measurement_page(result(cases=(case("R=512 C=1024", 2.2), case("R=64 C=8192", 2.4)))))
    for part in ("a.c", "ok", "2.31", "2.25 .. 2.38", "41.2 us cold, 38.0 us warm", "95.1 us", "63%", "0.8%"):
        assert part in text
    for part in ("R=512 C=1024", "R=64 C=8192", "user namespace", "k_0123456789abcdef0123", "Measure the next idea."):
        assert part in text


def test_one_case_needs_no_table() -> None:
    assert "interval  " not in page(measurement_page(result(cases=(case("N=4", 2.31),)))).replace("   interval", "")


def test_an_incorrect_kernel_has_no_numbers() -> None:
    text = page(measurement_page(failed("incorrect")))
    assert "incorrect  a.c: incorrect" in text
    assert "us cold" not in text


def test_compile_errors_show_the_users_lines_and_stop_somewhere() -> None:
    log = "\n".join(["a.c:3:5: error: expected ';'", *(f"line {number}" for number in range(100))])
    text = page(measurement_page(failed("compile_error", diagnostics=log)))
    assert "| a.c:3:5: error: expected ';'" in text
    assert "71 more lines" in text
    assert "line 99" not in text


def test_warnings_of_a_good_kernel_are_no_diagnosis() -> None:
    assert "unused variable" not in page(measurement_page(result(diagnostics="a.c:1: warning: unused variable")))


def test_a_ranking_shows_ties_and_puts_failures_below() -> None:
    close = result(speedup=2.30, speedup_low=2.24, speedup_high=2.37)
    slow = result(speedup=0.5, speedup_low=0.49, speedup_high=0.51, comparison="slower")
    error = InputError("no such file", value="x.c", next_step="Check the path.")
    results = [slow, result(), failed("crashed"), close, error]
    text = page(ranking_page(results, ["slow.c", "best.c", "bad.c", "close.c", "x.c"]))
    rows = [line.split()[:2] for line in text.splitlines() if (".c " in line and "=" in line) or "slow.c" in line]
    assert rows == [["1=", "best.c"], ["1=", "close.c"], ["3", "slow.c"]]
    below = text[text.index("without a rank") :]
    assert "bad.c  crashed" in below
    assert "no such file: x.c. Check the path." in below


@pytest.mark.parametrize("mark", ["quarantined", "censored"])
def test_a_ranking_says_what_a_number_is_worth(mark: str) -> None:
    assert f"({mark})" in page(ranking_page([result(labels=(mark,)), result()], ["a.c", "b.c"]))


def test_kernels_of_different_tasks_are_not_ranked_together() -> None:
    text = page(ranking_page([result(), result(task="scan")], ["a.c", "b.c"]))
    assert text.count("   1 ") == 2
    assert "scan" in text
