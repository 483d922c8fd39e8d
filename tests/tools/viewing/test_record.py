"""Records of forecasters: what counts as verified, out of the store and out of searches, and what it comes to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from grown import TASK, Grown, kernel
from hypothesis import given
from hypothesis import strategies as st

from kforecast.store import forecasts, kernels, measurements
from kforecast.store.clock import utc_now
from kforecast.store.identity import new_id
from kforecast.store.models import Decision, Forecast, Measurement
from kforecast.surrogate import density
from kforecast.surrogate.contract import Reply
from kforecast.surrogate.metrics.rows import Truth, rows_of
from kforecast.surrogate.metrics.selective import risk_coverage
from kforecast.tools.viewing.record import Forecaster, RecordReader, Told, record_from

BINS = (0.0, 0.0, 0.125, 0.125, 0.25, 0.25, 0.25, 0.0)
OF = Forecaster("store a cpu", "a", "cpu", "store", 0, "")


def forecast(grown: Grown, number: int, **changes: Any) -> Forecast:
    one = kernel(number)
    kernels.save(grown.store, one)
    made = Forecast(
        **{
            "id": new_id("f"), "kernel_id": one.id, "baseline_id": kernel(0).id, "task_id": TASK.id, "device": "cpu",
            "forecaster": "agent:a", "p_correct": 0.9, "p_bins": BINS, "log2_median": 0.5, "log2_p10": -0.5,
            "log2_p90": 1.5, "created_at": utc_now(), **changes,
        }
    )  # fmt: skip
    decided = Decision(id=new_id("d"), forecast_id=made.id, kind="measure", reason="", created_at=utc_now())
    forecasts.save(grown.store, made, decided)
    return made


def measure(grown: Grown, made: Forecast, log2: float | None, **changes: Any) -> None:
    ends = {} if log2 is None else {"log2_speedup": log2, "log2_low": log2 - 0.1, "log2_high": log2 + 0.1}
    found = Measurement(
        **{
            "id": new_id("m"), "kernel_id": made.kernel_id, "baseline_id": made.baseline_id, "task_id": TASK.id,
            "task_name": TASK.name, "device": made.device, "device_id": "cpu-1", "lane": "host-code",
            "launch_mode": "process", "effort": "quick", "verdict": "incorrect" if log2 is None else "ok", "reason": "",
            "time_us": 1.0, "created_at": utc_now(), **ends, **changes,
        }
    )  # fmt: skip
    measurements.save(grown.store, found)


def test_forecasts_of_the_store_beside_what_was_measured_after_them(grown: Grown) -> None:
    hit, missed, wrong, open_ = (forecast(grown, number) for number in range(1, 5))
    measure(grown, hit, 0.6)
    measure(grown, missed, -2.0)
    measure(grown, wrong, None)
    found = RecordReader().look(grown.store, None)
    (who, *_) = found.forecasters
    assert (who.name, who.device, who.made, who.source) == ("agent:a", "cpu", 4, "store")
    assert found.record is not None
    told = {one.key: one for one in found.record.told}
    assert [told[one.id].held for one in (hit, missed, wrong)] == [True, False, None]
    assert open_.id not in told
    assert [one.key for one in found.record.told] == [wrong.id, missed.id, hit.id]
    scores = found.record.scores
    assert (scores.pairs, scores.right, scores.direction, scores.held) == (3, 2, 0.5, 0.5)
    assert scores.error == pytest.approx((0.1 + 2.5) / 2)
    assert scores.lean == pytest.approx((-0.1 + 2.5) / 2)
    assert found.record.standing is not None and found.record.standing.promise.missing > 0


def test_an_interval_that_ends_in_an_open_bin_holds_whatever_lies_beyond(grown: Grown) -> None:
    high, closed = forecast(grown, 1, log2_p90=2.8), forecast(grown, 2, log2_p90=1.9)
    for made in (high, closed):
        measure(grown, made, 3.5)
    found = RecordReader().look(grown.store, None)
    assert found.record is not None
    held = {one.key: one.held for one in found.record.told}
    assert held == {high.id: True, closed.id: False}


def test_forecasts_that_stand_in_a_searchs_log_alone_are_told_against_their_anchor(grown: Grown) -> None:
    first = grown.child(log2=1.0)
    grown.child(first, log2=1.4)
    grown.child(log2=None)
    found = RecordReader().look(grown.store, None)
    assert [(one.name, one.source, one.made) for one in found.forecasters] == [("base-rate", "searches", 3)]
    assert found.record is not None and found.record.standing is None
    told = {one.name: one for one in found.record.told}
    assert told["idea 1"].measured == pytest.approx(1.0)
    assert told["idea 3"].measured is None and not told["idea 3"].ok
    assert all(one.p_correct == 0.8 and one.p_faster == 0.6 for one in told.values())
    assert told["idea 1"].decision == "measure"


def test_a_search_whose_forecasts_stand_in_the_store_is_not_counted_twice(grown: Grown) -> None:
    node = grown.propose()
    made = forecast(grown, 1)
    from kforecast.tools.search.events import Decided, Forecasted

    grown.say(
        Forecasted(node=node, anchor=grown.root, forecaster="agent:a", p_correct=0.9, log2_median=0.5, log2_p10=0.0,
                   log2_p90=1.0, p_faster=0.8, forecast_id=made.id),
        Decided(node=node, decision="measure"),
    )  # fmt: skip
    grown.measure(node, 0.4)
    measure(grown, made, 0.4)
    found = RecordReader().look(grown.store, None)
    assert [one.source for one in found.forecasters] == ["store"]
    assert found.record is not None and found.record.scores.pairs == 1


def test_devices_and_forecasters_are_kept_apart_and_chosen_by_key(grown: Grown) -> None:
    measure(grown, forecast(grown, 1), 0.5)
    forecast(grown, 2, device="cuda:0", forecaster="learned")
    reader = RecordReader()
    keys = {one.name: one.key for one in reader.look(grown.store, None).forecasters}
    assert set(keys) == {"agent:a", "learned"}
    for name, pairs in (("agent:a", 1), ("learned", 0)):
        record = reader.look(grown.store, keys[name]).record
        assert record is not None and (record.of.name, record.scores.pairs) == (name, pairs)


def test_nothing_forecast_is_nothing_to_show(grown: Grown) -> None:
    found = RecordReader().look(grown.store, None)
    assert (found.forecasters, found.record) == ((), None)


def told(number: int, forecast_: float, measured: float | None, p_correct: float, bins: tuple[float, ...]) -> Told:
    return Told(
        key=f"f{number}", kernel_id=f"k{number}", name="", task="t", at=f"{number:03}", forecast=forecast_,
        low=forecast_ - 1, high=forecast_ + 1, p_correct=p_correct, p_faster=float(density.p_faster(bins)),
        ok=measured is not None, measured=measured, measured_low=measured, measured_high=measured, decision="measure",
        audited=False,
    )  # fmt: skip


shares = st.lists(st.floats(0.01, 1), min_size=8, max_size=8).map(lambda raw: tuple(x / sum(raw) for x in raw))
rows = st.lists(st.tuples(st.floats(-3, 3), st.none() | st.floats(-3, 3), st.floats(0.01, 1), shares), max_size=40)


@given(rows)
def test_scores_agree_with_those_of_the_evaluation(made: list[Any]) -> None:
    found = [told(number, *row) for number, row in enumerate(made)]
    record = record_from(OF, found)
    truths = [Truth("t", "b", one.kernel_id, one.ok, one.measured) for one in found]
    replies = [Reply(p_correct=row[2], p_bins=row[3], raw_sum=1.0) for row in made]
    expected = rows_of(truths, replies)
    coverage, risk = risk_coverage(expected)
    assert record.coverage == pytest.approx(coverage.tolist())
    confident = np.maximum(expected.p_correct * density.p_faster(expected.p_bins), 0) if made else np.array([])
    if len(set(np.round(np.maximum(confident, 1 - confident), 12).tolist())) == len(made):
        assert record.risk == pytest.approx(risk.tolist())
    assert sum(point.count for point in record.correct) == len(made)
    assert sum(point.count for point in record.faster) == record.scores.right
    errors = [one.forecast - one.measured for one in reversed(found) if one.measured is not None]
    assert len(record.rolling) == max(0, len(errors) - 29)
    if record.rolling:
        assert record.rolling[-1] == pytest.approx(np.mean(errors[-30:]))
