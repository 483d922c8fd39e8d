"""Whole searches on a scripted bench in virtual time: they end, obey, and are what their log says."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from landscape import Bed, Children, oracle, truth

from kforecast.store import searches
from kforecast.store.errors import DeviceError
from kforecast.tools.search.bench import Job, Outcome
from kforecast.tools.search.budget import Budget
from kforecast.tools.search.events import Measured, Told
from kforecast.tools.search.log import SearchLog, folded, read_events


def test_a_search_finds_something_faster_and_verifies_it(bed: Bed) -> None:
    bed.forecaster = oracle()
    state = bed.run(Budget(measurements=40))
    assert state.outcome == "completed"
    assert state.best.verified and (state.best.log2 or 0) > 0.3
    assert state.spent.measurements <= 40
    row = searches.get(bed.store, bed.search_id)
    assert row is not None and row.state == "completed" and row.best_id == state.best.kernel_id


def test_the_state_is_the_fold_of_the_log_at_every_length(bed: Bed) -> None:
    state = bed.run(Budget(measurements=15))
    assert folded(bed.store, bed.search_id) == state
    pages = searches.nodes(bed.store, bed.search_id, limit=None)
    assert [node.log2_speedup for node in pages] == [node.log2 for node in state.nodes]
    assert [node.state for node in pages] == [node.state for node in state.nodes]


def test_s_is_against_the_seed_however_deep(bed: Bed) -> None:
    bed.forecaster = oracle()
    state = bed.run(Budget(measurements=60), verify=False)
    deep = [node for node in state.nodes if node.depth > 1 and node.log2 is not None]
    assert deep
    for node in deep:
        path = bed.landscape.by_id[node.kernel_id]
        assert node.log2 == pytest.approx(truth(path), abs=0.03 * node.depth)
        assert node.low is not None and node.high is not None and node.low < (node.log2 or 0) < node.high


def test_an_exhausted_generator_ends_the_search(bed: Bed) -> None:
    bed.children = Children(bed.landscape, most=2)
    state = bed.run(Budget(candidates=6))
    assert state.outcome == "completed" and state.spent.candidates == 6
    assert "candidates" in state.reason


def test_a_wrong_seed_fails_the_search(bed: Bed) -> None:
    bed.landscape.outcome = lambda job, outcome: Outcome("incorrect", detail="all zeros")
    state = bed.run(Budget(measurements=5))
    assert (state.outcome, state.spent.measurements) == ("failed", 1)
    assert "all zeros" in state.reason


def test_a_failing_machine_is_no_verdict(bed: Bed) -> None:
    failed: list[str] = []

    def once(job: Job, outcome: Outcome) -> Outcome:
        if job.baseline_id is not None and len(failed) < 4:
            failed.append(job.node)
            raise DeviceError("the device fell over", next_step="Put it up again.")
        return outcome

    bed.landscape.outcome = once
    state = bed.run(Budget(measurements=10))
    assert state.outcome == "completed" and len(failed) == 4
    assert state.spent.measurements == 10
    assert all(node.verdict != "lost" for node in state.nodes if failed.count(node.id) < 3)


def test_a_machine_that_fails_again_and_again_pauses_the_search(bed: Bed) -> None:
    broken = [True]

    def never(job: Job, outcome: Outcome) -> Outcome:
        if job.baseline_id is not None and broken[0]:
            raise DeviceError("the disk is full", next_step="Free some space.")
        return outcome

    bed.landscape.outcome = never
    state = bed.run(Budget(measurements=10))
    assert state.outcome == "paused"
    assert state.reason.startswith("The last ")
    assert "the disk is full. Free some space." in state.reason
    assert 9 <= state.lost_in_a_row <= 9 + state.config.measuring
    assert state.spent.measurements == 1
    row = searches.get(bed.store, bed.search_id)
    assert row is not None and row.state == "paused"

    broken[0] = False
    SearchLog(bed.store, bed.search_id).append([Told(order="resume")])
    state = asyncio.run(bed.worker().run())
    assert (state.outcome, state.lost_in_a_row) == ("completed", 0)
    assert state.best.verified and state.spent.measurements == 10
    assert folded(bed.store, bed.search_id) == state


def test_a_claim_that_the_machinery_lost_is_made_again(bed: Bed) -> None:
    lost: list[str] = []

    def once(job: Job, outcome: Outcome) -> Outcome:
        if job.purpose == "verify" and not lost:
            lost.append(job.node)
            raise DeviceError("the device fell over", next_step="Put it up again.")
        return outcome

    bed.landscape.outcome = once
    state = bed.run(Budget(measurements=10))
    assert lost == [state.best.id]
    assert state.best.verified and state.best.effort == "claim"


def test_a_winner_that_does_not_hold_is_replaced(bed: Bed) -> None:
    def claims(job: Job, outcome: Outcome) -> Outcome:
        lucky = outcome.log2 is not None and job.effort == "quick" and bed.landscape.by_id[job.kernel_id] == "/1"
        return dataclasses.replace(outcome, log2=9.0, log2_low=8.9, log2_high=9.1) if lucky else outcome

    bed.landscape.outcome = claims
    state = bed.run(Budget(measurements=20))
    believed = [node for node in state.nodes if node.log2 is not None and node.log2 > 5]
    assert not believed
    lucky = next(node for node in state.nodes if bed.landscape.by_id[node.kernel_id] == "/1")
    assert lucky.effort == "claim" and state.best is not lucky


def test_stop_and_resume_are_words_in_the_log(bed: Bed) -> None:
    bed.begin(Budget(measurements=12))
    SearchLog(bed.store, bed.search_id).append([Told(order="stop", by="cli")])
    assert asyncio.run(bed.worker().run()).outcome == "cancelled"
    SearchLog(bed.store, bed.search_id).append([Told(order="resume")])
    state = asyncio.run(bed.worker().run())
    assert (state.outcome, state.spent.measurements) == ("completed", 12)
    SearchLog(bed.store, bed.search_id).append([Told(order="extend", budget=Budget(measurements=5))])
    assert asyncio.run(bed.worker().run()).spent.measurements == 17


def test_a_candidate_is_measured_at_most_once_an_effort(bed: Bed) -> None:
    bed.run(Budget(measurements=30))
    measured = [event for event in read_events(bed.store, bed.search_id) if isinstance(event, Measured)]
    assert len({(event.node, event.effort) for event in measured}) == len(measured)


def test_slow_generators_and_forecasters_find_the_same(bed: Bed) -> None:
    bed.children = Children(bed.landscape, inline=False)
    bed.forecaster = dataclasses.replace(oracle(), inline=False)
    state = bed.run(Budget(measurements=15))
    assert state.outcome == "completed" and state.spent.measurements == 15
    assert folded(bed.store, bed.search_id) == state
