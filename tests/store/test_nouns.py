"""Every noun comes back as it was saved, and is found by what people look for."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kforecast.store import forecasts, kernels, measurements, profiles, tasks
from kforecast.store.clock import utc_now
from kforecast.store.database import Store
from kforecast.store.errors import InputError, StoreError
from kforecast.store.identity import new_id
from kforecast.store.models import CaseResult, Decision, Facts, Forecast, Kernel, Measurement, Mismatch, Task

MakeMeasurement = Callable[..., Measurement]

NUMBERS = st.none() | st.floats(allow_nan=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def test_a_task_comes_back_and_its_name_leads_to_the_newest(store: Store, task: Task) -> None:
    assert tasks.save(store, task)
    assert not tasks.save(store, task)
    changed = task.model_copy(update={"reference_source": "def add(a, b):\n    return b + a\n"})
    assert changed.id != task.id
    assert tasks.save(store, changed)
    assert tasks.get(store, task.id) == task
    assert tasks.latest(store, task.name) == changed
    assert tasks.find(store, name=task.name) == [changed, task]
    assert tasks.get(store, "t_none") is None
    assert tasks.latest(store, "none") is None


def test_a_title_is_for_people_and_not_in_the_id(task: Task) -> None:
    assert task.model_copy(update={"title": "the sum of two"}).id == task.id


def test_a_kernel_comes_back_and_the_first_of_equal_ones_stays(
    store: Store, saved: list[Kernel], make_kernel: Callable[..., Kernel]
) -> None:
    again = make_kernel(0, name="another name")
    assert not kernels.save(store, again)
    assert kernels.get(store, again.id) == saved[0]
    assert kernels.find(store, task_id=saved[0].task_id) == saved[::-1]
    assert kernels.find(store, task_id="t_none") == []


def test_a_kernel_is_found_by_the_beginning_of_its_id(store: Store, saved: list[Kernel]) -> None:
    for kernel in saved:
        assert kernels.resolve(store, kernel.id) == kernel
        assert kernels.resolve(store, kernel.id[:12]) == kernel
    with pytest.raises(InputError, match="no kernel"):
        kernels.resolve(store, saved[0].id[:4])
    with pytest.raises(InputError, match="no kernel"):
        kernels.resolve(store, "k_%%%%")


def test_an_ambiguous_beginning_names_the_candidates(store: Store, saved: list[Kernel]) -> None:
    for last in "01":
        kernels.save(store, saved[0].model_copy(update={"id": f"k_abcdef{last}"}))
    with pytest.raises(InputError, match=r"Several.*k_abcdef0, k_abcdef1"):
        kernels.resolve(store, "k_abcdef")
    assert kernels.resolve(store, "k_abcdef0").id == "k_abcdef0"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(numbers=st.lists(NUMBERS, min_size=6, max_size=6), text=TEXT, censored=st.booleans(), tags=st.lists(TEXT))
def test_a_measurement_comes_back_whole(
    *,
    store: Store,
    saved: list[Kernel],
    make_measurement: MakeMeasurement,
    numbers: list[float | None],
    text: str,
    censored: bool,
    tags: list[str],
) -> None:
    one, two, three, four, five, six = numbers
    measurement = make_measurement(
        log2_speedup=None if one is None else max(-1000.0, min(1000.0, one)),
        time_us=two,
        noise_pct=three,
        percent_of_floor=four,
        confidence=five,
        reason=text,
        diagnostics=text,
        labels=tuple(tags),
        censored=censored,
        environment={"text": text, "clock": [1, 2.5, None, {"deep": True}]},
        cases=(CaseResult(case=f"N={text}", time_us=1.5, log2_low=six),),
        mismatch=Mismatch(
            case="N=7",
            tensor="c",
            index=(0, 3),
            got="nan",
            want="1",
            error=six,
            limit=1e-6,
            wrong=1,
            total=7,
            explanation=text,
        ),
        facts=Facts(ok=True, arch="sm_90", instruction_mix={"FFMA": 3}),
    )
    measurements.save(store, measurement)
    assert measurements.get(store, measurement.id) == measurement
    row = store.read("SELECT speedup FROM measurements WHERE id = ?", (measurement.id,))[0]
    assert row["speedup"] == measurement.speedup


def test_what_no_column_or_json_can_hold_is_refused_before_it_is_written(
    store: Store, saved: list[Kernel], make_measurement: MakeMeasurement
) -> None:
    for changes in ({"time_us": float("nan")}, {"diagnostics": "\ud800"}, {"environment": {"a": object()}}):
        with pytest.raises(InputError):
            measurements.save(store, make_measurement(**changes))
    assert measurements.find(store) == []


def test_an_id_that_is_taken_is_refused(store: Store, saved: list[Kernel], make_measurement: MakeMeasurement) -> None:
    measurement = make_measurement()
    measurements.save(store, measurement)
    with pytest.raises(StoreError, match="refused a row"):
        measurements.save(store, measurement.model_copy(update={"verdict": "crashed"}))
    assert measurements.get(store, measurement.id) == measurement


def test_the_latest_is_of_that_pair_and_device_and_believed(
    store: Store, saved: list[Kernel], make_measurement: MakeMeasurement
) -> None:
    def made(moment: int, **changes: Any) -> Measurement:
        measurement = make_measurement(created_at=f"2026-11-30T00:00:{moment:02}.000000Z", **changes)
        measurements.save(store, measurement)
        return measurement

    newest = made(5)
    made(1)
    alone = made(2, baseline_id=None)
    made(8, device_id="cpu-2")
    made(9, quarantine="under the floor")
    broken = made(3, verdict="crashed")
    kernel, baseline = newest.kernel_id, newest.baseline_id
    assert measurements.latest(store, kernel, baseline_id=baseline, device_id="cpu-1") == newest
    assert measurements.latest(store, kernel, device_id="cpu-1") == alone
    assert measurements.latest(store, kernel, baseline_id=baseline, device_id="cpu-1", verdict="crashed") == broken
    assert measurements.latest(store, kernel, baseline_id=kernel, device_id="cpu-1") is None


def test_filters_choose_and_the_newest_comes_first(
    store: Store, saved: list[Kernel], make_measurement: MakeMeasurement
) -> None:
    def made(moment: int, **changes: Any) -> str:
        measurement = make_measurement(created_at=f"2026-11-30T00:00:{moment:02}.000000Z", **changes)
        measurements.save(store, measurement)
        return measurement.id

    one = made(1)
    two = made(2, verdict="incorrect", kernel_id=saved[2].id, quarantine="odd")
    three = made(3, device="cuda:0", device_id="GPU-1", baseline_id=saved[2].id)

    def found(**filters: Any) -> list[str]:
        return [measurement.id for measurement in measurements.find(store, **filters)]

    assert found() == [three, two, one]
    assert found(limit=2) == [three, two]
    assert found(limit=None) == [three, two, one]
    assert found(task="vector_add") == found(task=saved[0].task_id) == [three, two, one]
    assert found(task="gemm") == []
    assert found(device="cuda:0") == found(device="GPU-1") == [three]
    assert found(kernel=saved[2].id) == found(verdict="incorrect") == found(quarantined=True) == [two]
    assert found(quarantined=False) == [three, one]
    assert found(baseline=saved[2].id) == [three]
    assert found(since="2026-11-30T00:00:02.000000Z") == [three, two]
    assert found(device="cpu", verdict="ok", since="2026-11-30") == [one]


def test_the_best_is_the_fastest_newest_believed_reading(
    store: Store, saved: list[Kernel], make_measurement: MakeMeasurement
) -> None:
    def made(kernel: int, moment: int, time_us: float | None, **changes: Any) -> Measurement:
        measurement = make_measurement(
            kernel_id=saved[kernel].id,
            created_at=f"2026-11-30T00:00:{moment:02}.000000Z",
            **{"time_us": time_us, **changes},
        )
        measurements.save(store, measurement)
        return measurement

    where: dict[str, str] = {"task_id": saved[0].task_id, "device_id": "cpu-1"}
    assert measurements.best(store, **where) is None
    made(0, 1, 1.0)
    made(0, 2, 9.0)
    best = made(1, 3, 5.0)
    made(2, 4, 2.0, quarantine="under the floor")
    made(2, 5, 2.0, verdict="incorrect")
    made(2, 6, 2.0, censored=True)
    made(2, 7, 2.0, device_id="cpu-2")
    made(2, 8, None)
    assert measurements.best(store, **where) == best
    assert measurements.best(store, **where, launch_mode="process") == best
    assert measurements.best(store, **where, launch_mode="graph") is None
    rows = store.read("SELECT place, kernel, time_us FROM leaderboard WHERE device_id = 'cpu-1'")
    assert [tuple(row) for row in rows] == [(1, "kernel 1", 5.0), (2, "kernel 0", 9.0)]


def test_quarantine_can_be_cleared(store: Store, saved: list[Kernel], make_measurement: MakeMeasurement) -> None:
    measurement = make_measurement(quarantine="under the floor")
    measurements.save(store, measurement)
    cleared = measurements.set_quarantine(store, measurement.id, None)
    assert cleared == measurement.model_copy(update={"quarantine": None})
    assert measurements.set_quarantine(store, measurement.id, "odd") == measurements.get(store, measurement.id)
    with pytest.raises(InputError, match="m_none"):
        measurements.set_quarantine(store, "m_none", None)


def test_a_forecast_comes_back_with_its_decisions(
    store: Store, saved: list[Kernel], make_forecast: Callable[..., Forecast]
) -> None:
    def decide(kind: str) -> Decision:
        return Decision.model_validate(
            {
                "id": new_id("d"),
                "forecast_id": forecast.id,
                "kind": kind,
                "reason": "wide interval",
                "numbers": {"alpha": 0.1},
                "audited": True,
                "created_at": utc_now(),
            }
        )

    forecast = make_forecast(reasoning="less traffic", cost_usd=0.01, tokens=500)
    first = decide("measure")
    forecasts.save(store, forecast, first)
    second = decide("drop")
    forecasts.save_decision(store, second)
    other = make_forecast(forecaster="base-rate", device="cuda:0")
    forecasts.save(store, other)
    assert forecasts.get(store, forecast.id) == forecast
    assert forecasts.find(store) == [other, forecast]
    assert forecasts.find(store, forecaster="agent:test", kernel=forecast.kernel_id) == [forecast]
    assert forecasts.find(store, device="cuda:0", since="2026", task_id=other.task_id) == [other]
    assert forecasts.find(store, baseline=forecast.kernel_id) == []
    assert forecasts.get_decision(store, first.id) == first
    assert forecasts.decisions(store, forecast.id) == [second, first]
    assert forecasts.decisions(store, other.id) == []
    assert forecasts.get(store, "f_none") is None
    assert forecasts.get_decision(store, "d_none") is None


def test_a_decision_without_its_forecast_takes_the_forecast_with_it(
    store: Store, saved: list[Kernel], make_forecast: Callable[..., Forecast]
) -> None:
    forecast = make_forecast()
    orphan = Decision(id="d_1", forecast_id="f_none", kind="drop", reason="", created_at=utc_now())
    with pytest.raises(StoreError, match="refused a row"):
        forecasts.save(store, forecast, orphan)
    assert forecasts.find(store) == []


def test_the_newest_profile_of_a_device_counts(store: Store) -> None:
    assert profiles.latest(store, "cpu-1", "memory") is None
    profiles.save(store, "cpu-1", "memory", {"copy_gb_s": 10.0})
    newest = profiles.save(store, "cpu-1", "memory", {"copy_gb_s": 11.0})
    profiles.save(store, "cpu-2", "memory", {"copy_gb_s": 12.0})
    profiles.save(store, "cpu-1", "launch", {"gap_us": 1.0})
    assert profiles.latest(store, "cpu-1", "memory") == newest


def test_a_row_another_program_spoilt_is_named(
    store: Store, saved: list[Kernel], make_measurement: MakeMeasurement
) -> None:
    measurement = make_measurement()
    measurements.save(store, measurement)
    with store.write() as db:
        db.execute("UPDATE measurements SET verdict = 'splendid'")
    with pytest.raises(StoreError, match=f"table measurements.*{measurement.id}"):
        measurements.get(store, measurement.id)


def test_the_views_read_well_for_any_sqlite_program(
    store: Store, path: Path, saved: list[Kernel], make_measurement: MakeMeasurement
) -> None:
    measurements.save(store, make_measurement(log2_speedup=2.0))
    measurements.save(store, make_measurement(baseline_id=None, log2_speedup=None, comparison="none"))
    db = sqlite3.connect(path)
    rows = db.execute("SELECT task, device, kernel, baseline, verdict, speedup FROM recent_measurements").fetchall()
    db.close()
    assert rows == [
        ("vector_add", "cpu", "kernel 0", None, "ok", None),
        ("vector_add", "cpu", "kernel 0", "kernel 1", "ok", 4.0),
    ]


def test_moments_sort_as_text() -> None:
    moments = [utc_now() for _ in range(100)]
    assert moments == sorted(moments)
    assert all(len(moment) == 27 and moment.endswith("Z") for moment in moments)
