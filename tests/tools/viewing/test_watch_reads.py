"""What is read for those who watch: curves, lists of searches, candidates, the feed."""

from __future__ import annotations

from pathlib import Path

import pytest
from grown import TASK, Grown, kernel
from hypothesis import given
from hypothesis import strategies as st

from kforecast.store import forecasts, kernels, measurements, requests, searches
from kforecast.store.bins import BINS
from kforecast.store.clock import utc_now
from kforecast.store.identity import new_id
from kforecast.store.models import Decision, Forecast, Kernel, Measurement
from kforecast.tools import quarantine
from kforecast.tools.search import process
from kforecast.tools.viewing import searches as listing
from kforecast.tools.viewing.curves import Curves
from kforecast.tools.viewing.feed import Feed
from kforecast.tools.viewing.node import bins_of_interval, changes, node_view
from kforecast.tools.viewing.search import SearchAsk, SearchReader
from kforecast.tools.viewing.tree import TreeAsk


def looked(curves: Curves, grown: Grown) -> object:
    row = searches.get(grown.store, grown.search_id)
    assert row is not None
    more = True
    known = {}
    while more:
        known, more = curves.look(grown.store, [row])
    return known[grown.search_id]


def test_a_curve_rises_with_what_was_measured_better_and_with_nothing_else(grown: Grown) -> None:
    for log2 in (0.2, 0.1, None, 0.5, 0.5):
        grown.child(log2=log2)
    grown.decide(grown.propose(), "drop")
    curve = looked(Curves(), grown)
    assert [log2 for _, log2 in curve.steps] == [0.2, 0.5]  # type: ignore[attr-defined]
    assert curve.deferral_rate == pytest.approx(5 / 6)  # type: ignore[attr-defined]
    sampled = curve.sampled(8)  # type: ignore[attr-defined]
    assert sampled == sorted(sampled) and (sampled[0], sampled[-1]) == (0.0, 0.5)


def test_a_curve_read_in_pieces_is_the_curve(grown: Grown) -> None:
    follower = Curves()
    for log2 in (0.1, 0.3, 0.2, 0.9, None, 0.95):
        grown.child(log2=log2)
        looked(follower, grown)
    assert looked(follower, grown) == looked(Curves(), grown)


def test_the_first_answer_waits_for_no_curve(grown: Grown) -> None:
    page = listing.searches_page(grown.store, Curves(), first=0, count=9)
    assert (page.total, page.more, page.lines[0].curve) == (1, True, None)


def test_searches_are_ordered_filtered_and_found(grown: Grown) -> None:
    grown.child(log2=0.5)
    second = Grown(grown.path, generator="agent")
    ask = {"first": 0, "count": 9}
    newest = listing.searches_page(grown.store, Curves(), **ask)  # type: ignore[arg-type]
    assert [line.search.id for line in newest.lines] == [second.search_id, grown.search_id]
    best = listing.searches_page(grown.store, Curves(), order="best", about=second.search_id, **ask)  # type: ignore[arg-type]
    assert [line.search.id for line in best.lines] == [grown.search_id, second.search_id] and best.at == 1
    assert listing.searches_page(grown.store, Curves(), like="AGENT", **ask).total == 1  # type: ignore[arg-type]
    for order in listing.ORDERS:
        assert listing.searches_page(grown.store, Curves(), order=order, **ask).total == 2  # type: ignore[arg-type]
    second.close()


def test_a_search_without_its_worker_is_told_from_one_that_is_worked_on(grown: Grown) -> None:
    def line() -> listing.SearchLine:
        return listing.searches_page(
            grown.store, Curves(), first=0, count=1, is_alive=lambda name: name == "w:1:1"
        ).lines[0]

    assert line().orphaned and line().worker is None
    searches.take_lease(grown.store, grown.search_id, "w:1:1", lambda _: True, stale_before="")
    assert not line().orphaned and line().worker == "w:1:1"
    grown.finish()
    assert not line().orphaned


def test_how_old_a_heartbeat_may_be_is_said_once() -> None:
    assert listing.STALE_S == process.STALE_S


def test_a_candidate_with_its_forecast_and_what_was_measured(grown: Grown) -> None:
    node = grown.child(log2=0.7)
    row = searches.get(grown.store, grown.search_id)
    assert row is not None
    view = node_view(grown.store, row, node)
    assert view is not None and view.outlook is not None and view.outlook.bins is not None
    assert (view.parent_ordinal, view.generator, view.waits_for) == (0, "edits", "")
    assert view.outlook.measured == pytest.approx(0.7) and not view.outlook.given
    assert [one.decision for one in view.decisions] == ["measure"]
    assert [(one.verdict, one.log2) for one in view.verdicts] == [("ok", 0.7)]
    assert node_view(grown.store, row, "n_none") is None


def test_what_is_in_flight_is_said(grown: Grown) -> None:
    node = grown.propose()
    grown.decide(node)
    grown.begin(node)
    row = searches.get(grown.store, grown.search_id)
    assert row is not None
    view = node_view(grown.store, row, node)
    assert view is not None and view.waits_for == "its measurement"


@given(median=st.floats(-3, 3), down=st.floats(0.001, 3), up=st.floats(0.001, 3))
def test_bins_of_an_interval_have_its_median_and_ends(median: float, down: float, up: float) -> None:
    bins = bins_of_interval(median, median - down, median + up)
    assert len(bins) == len(BINS) and sum(bins) == pytest.approx(1) and min(bins) >= 0
    below = sum(share for one, share in zip(BINS, bins, strict=True) if one.log2_high <= median)
    above = sum(share for one, share in zip(BINS, bins, strict=True) if one.log2_low >= median)
    assert below <= 0.5 + 1e-9 and above <= 0.5 + 1e-9


def test_a_diff_tells_settings_and_lines() -> None:
    old = kernel(1, source="int a;\nint b;\n", tunables={"U": 1})
    new = kernel(1, source="int a;\nint c;\n", tunables={"U": 4})
    assert changes(old, new)[:3] == ["@@ outside the source @@", "-U = 1", "+U = 4"]
    assert "-int b;" in changes(old, new) and "+int c;" in changes(old, new)
    assert changes(old, old) == []


def test_a_whole_look_at_a_search(grown: Grown) -> None:
    nodes = [grown.child(log2=index / 10) for index in range(6)]
    reader = SearchReader(lambda name: False)
    ask = SearchAsk(None, TreeAsk(0, 50, about=nodes[2]), marked=nodes[0], log_count=3)
    found = reader.look(grown.store, ask)
    while found is not None and found.more:
        found = reader.look(grown.store, ask)
    assert found is not None and found.node is not None and found.marked is not None
    assert (found.node.node.id, found.marked.node.id, found.mark) == (nodes[2], nodes[0], "measured")
    assert found.decisions.total == 6 and [number for _, number in found.decisions.lines] == [6, 5, 4]
    assert reader.look(grown.store, SearchAsk("s_none", TreeAsk(0, 5))) is None


def measured(grown: Grown, made: Kernel, client: str) -> Measurement:
    request = requests.enqueue(grown.store, device="cpu", payload={"k": made.id}, client=client)
    claimed = requests.claim(grown.store, request.id, "b:1:1")
    assert claimed is not None
    found = Measurement(
        id=new_id("m"), request_id=request.id, kernel_id=made.id, task_id=TASK.id, task_name=TASK.name, device="cpu",
        device_id="d", lane="host-code", launch_mode="process", effort="quick", verdict="ok", reason="",
        comparison="faster", log2_speedup=1.0, log2_low=0.9, log2_high=1.1, time_us=5.0, created_at=utc_now(),
    )  # fmt: skip
    assert requests.complete(grown.store, request.id, "b:1:1", found)
    return found


def test_the_feed_has_what_was_asked_one_by_one_newest_first(grown: Grown, tmp_path: Path) -> None:
    ours, other = kernel(900), kernel(901)
    kernels.save(grown.store, ours)
    kernels.save(grown.store, other)
    feed = Feed()
    assert feed.look(grown.store) == ()
    forecast = Forecast(
        id=new_id("f"), kernel_id=ours.id, baseline_id=other.id, task_id=TASK.id, device="cpu", forecaster="agent:a",
        p_correct=0.9, p_bins=(0.0,) * 7 + (1.0,), log2_median=2.5, log2_p10=2.1, log2_p90=2.9, created_at=utc_now(),
    )  # fmt: skip
    decision = Decision(id=new_id("d"), forecast_id=forecast.id, kind="measure", reason="", created_at=utc_now())
    forecasts.save(grown.store, forecast, decision)
    by_agent = measured(grown, ours, "mcp:7:7")
    by_search = measured(grown, other, f"search:{grown.search_id}")
    entries = feed.look(grown.store)
    assert [(entry.id, entry.who, entry.outcome) for entry in entries] == [
        (by_agent.id, "mcp:7:7", "faster"),
        (forecast.id, "agent:a", "measure"),
    ]
    everything = feed.look(grown.store, searches_too=True)
    assert [entry.id for entry in everything if entry.search == grown.search_id] == [by_search.id]
    quarantine.put(by_agent.id, "too good", grown.path)
    assert [entry.quarantined for entry in feed.look(grown.store)] == [True, False]
    quarantine.clear(by_agent.id, grown.path)
    assert measurements.get(grown.store, by_agent.id).quarantine is None  # type: ignore[union-attr]
    assert [entry.quarantined for entry in feed.look(grown.store)] == [False, False]
