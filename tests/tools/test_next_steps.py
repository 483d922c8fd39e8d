"""What a measurement advises: more than was just done, or something else, and why where that is known."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from kforecast.store.models import Comparison, Effort, Measurement
from kforecast.tools.ratios import RANK
from kforecast.tools.results import measure_result

BUSY: dict[str, Any] = {"cores": 2, "before": {"load_1m": 7.9, "steal_ticks": 0}}
QUIET: dict[str, Any] = {"cores": 2, "before": {"load_1m": 0.2, "steal_ticks": 0}}
SPANS: dict[str, tuple[float, float]] = {
    "faster": (0.5, 1.5),
    "slower": (-1.5, -0.5),
    "tie": (-0.01, 0.01),
    "unclear": (-0.3, 0.5),
}


def advice(comparison: str, effort: str, **more: Any) -> str:
    low, high = SPANS.get(comparison, (0.0, 0.0))
    measured = comparison in SPANS
    values: dict[str, Any] = {
        "id": "m_1", "kernel_id": "k_candidate", "baseline_id": None if comparison == "none" else "k_seed",
        "task_id": "t_1", "task_name": "softmax", "device": "cpu", "device_id": "cpu-1", "lane": "host-code",
        "launch_mode": "process", "effort": effort, "verdict": "ok", "reason": "", "comparison": comparison,
        "log2_speedup": (low + high) / 2 if measured else None, "log2_low": low if measured else None,
        "log2_high": high if measured else None,
        "created_at": "2026-11-30T12:00:00Z",
    }  # fmt: skip
    return measure_result(Measurement(**{**values, **more}), name="a.c").next


@pytest.mark.parametrize("environment", [BUSY, QUIET, {}], ids=["busy", "quiet", "unknown"])
@pytest.mark.parametrize("effort", get_args(Effort))
@pytest.mark.parametrize("comparison", get_args(Comparison))
@pytest.mark.parametrize("noise", [None, 0.3, 120.0])
def test_no_advice_asks_for_what_was_done(
    comparison: str, effort: Effort, environment: dict[str, Any], noise: float | None
) -> None:
    text = advice(comparison, effort, environment=environment, noise_pct=noise)
    assert 20 < len(text) < 200
    for asked in re.findall(r"effort (\w+)", text):
        assert RANK[asked] > RANK[effort]


def test_an_unclear_claim_ends_the_matter() -> None:
    text = advice("unclear", "claim")
    assert "cannot be told apart" in text
    assert "effort" not in text


def test_an_unclear_ratio_asks_for_the_next_effort_and_for_quiet_where_there_is_none() -> None:
    assert "effort normal" in advice("unclear", "quick", environment=QUIET)
    assert "effort claim" in advice("unclear", "normal", environment=QUIET)
    assert "load 7.9 on 2 cores" in advice("unclear", "normal", environment=BUSY)
    assert "load" not in advice("unclear", "normal", environment=QUIET)


def test_an_interval_on_one_side_is_not_said_to_hold_both() -> None:
    for effort in get_args(Effort):
        assert "both directions" not in advice("unclear", effort, log2_low=0.2, log2_high=0.9)
    assert "do not agree on a win" in advice("unclear", "claim", log2_low=0.2, log2_high=0.9)


def test_a_parallel_kernel_that_lost_on_busy_cores_is_told_so() -> None:
    text = advice("slower", "normal", labels=("openmp",), environment=BUSY)
    assert "load 7.9 on 2 cores" in text and "threads waited" in text
    for more in ({"environment": BUSY}, {"labels": ("openmp",), "environment": QUIET}, {"labels": ("openmp",)}):
        assert "Drop this idea" in advice("slower", "normal", **more)


def test_a_ratio_that_was_asked_for_and_not_had_is_measured_again() -> None:
    assert "Measure again" in advice("none", "normal", baseline_id="k_seed")
    assert "give a baseline" in advice("none", "claim")
