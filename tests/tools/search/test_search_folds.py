"""The fold forecaster on the recorded H200 kernels: it never saw the family, and hears what the search measured."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.tools.search.folds import FoldForecaster, family_of
from kforecast.tools.search.forecasting import ForecastAsk, Learnt
from kforecast.tools.search.replay import pool_of
from kforecast.tools.search.report import report_of
from kforecast.tools.search.use import search

POOL = f"replay:{Path(__file__).parents[3] / 'docs/results/h200_kernels.jsonl.gz'}"


def test_the_family_is_left_out() -> None:
    pool = pool_of(POOL)
    task = next(task for task in pool.tasks.values() if task.name == "gemv")
    forecaster = FoldForecaster(pool, task)
    assert forecaster.trained_on.isdisjoint(family_of("gemv")) and "gemm_f32" in family_of("gemv")
    assert "histogram" in forecaster.trained_on


def test_what_the_search_measured_narrows_its_forecasts() -> None:
    pool = pool_of(POOL)
    task = next(task for task in pool.tasks.values() if task.name == "gemv")
    forecaster = FoldForecaster(pool, task)
    recorded = [one for one in pool.of_task(task.id) if one.ok]
    anchor, candidate, others = recorded[0], recorded[1], recorded[2:]
    anchor_us = anchor.measurement.time_us or 0.0
    learnt = [Learnt(anchor.kernel, 0.0)]
    learnt += [Learnt(one.kernel, math.log2(anchor_us / (one.measurement.time_us or math.inf))) for one in others]
    widths = []
    for known in (learnt[:1], learnt):
        ask = ForecastAsk("n_1", candidate.kernel, anchor.kernel, POOL, learnt=tuple(known))
        outlook = forecaster.outlooks([ask])[0]
        assert outlook.log2_p10 is not None and outlook.log2_median is not None and outlook.log2_p90 is not None
        assert outlook.log2_p10 <= outlook.log2_median <= outlook.log2_p90
        widths.append(outlook.log2_p90 - outlook.log2_p10)
    assert widths[1] < widths[0]


def test_a_replay_with_it_ends_and_reports(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as store:
        result = search(
            "histogram", budget="25m", device=POOL, forecaster="learned-fold", detached=False, store=store, verify=False
        )
        assert result.state == "completed", result.reason
        report = report_of(store, result.search_id)
        assert len(report.verified) >= 20
        assert {pair.forecaster for pair in report.verified} == {"learned-fold"}


def test_other_forecasters_are_refused_in_a_replay(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as store, pytest.raises(InputError, match="trained on"):
        search("histogram", budget="5m", device=POOL, forecaster="learned", detached=False, store=store)
