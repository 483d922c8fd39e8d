"""Readings that stand on others: on a loud machine S of what lies deep stays as sure as a reading or two."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from landscape import Bed, Children, Landscape, share

from kforecast.store.database import Store
from kforecast.tools.search import chains
from kforecast.tools.search.bench import Job, Outcome
from kforecast.tools.search.budget import Budget
from kforecast.tools.search.events import AnyEvent, Began, Measured
from kforecast.tools.search.log import read_events
from kforecast.tools.search.state import State, fold

DEEP = 20
STEP = 0.1
LOUD = math.log2(1.1)
"""Standard deviation of one reading: ten percent."""
SEEDS = 16


def normal(*parts: object) -> float:
    """A standard normal number that follows from the parts (Box and Muller)."""
    radius = math.sqrt(-2 * math.log(1 - share("radius", *parts)))
    return radius * math.cos(2 * math.pi * share("angle", *parts))


def depth_of(path: str) -> int:
    return path.count("/")


def chain(folder: Path, seed: int, noise: float, **config: object) -> tuple[State, list[AnyEvent], Landscape]:
    """A search down a chain, each step a tenth of an octave faster than the one before; all readings are noisy."""
    with Store.open(folder / f"{seed}-{noise}.db") as store:
        bed = Bed(store, Landscape())
        bed.search_id = f"s_{seed:020d}"
        bed.children = Children(bed.landscape, most=1)

        def loud(job: Job, outcome: Outcome) -> Outcome:
            if job.baseline_id is None:
                return outcome
            path, base = bed.landscape.by_id[job.kernel_id], bed.landscape.by_id[job.baseline_id]
            sd = noise / (5 if job.effort == "claim" else 1)
            log2 = STEP * (depth_of(path) - depth_of(base)) + sd * normal(seed, path, base, job.effort)
            return Outcome("ok", log2, log2 - 1.96 * sd, log2 + 1.96 * sd, seconds=1.0, time_us=1.0)

        bed.landscape.outcome = loud
        settings = {"speculate": 1, "verify": False, "random_seed": seed, **config}
        state = bed.run(Budget(candidates=DEEP), **settings)
        return state, read_events(store, bed.search_id), bed.landscape


def errors(state: State) -> list[tuple[int, float]]:
    """Depth, and what the reading is off by, octaves."""
    return [(node.depth, node.log2 - STEP * node.depth) for node in state.nodes if node.log2 is not None]


def test_deep_kernels_are_known_as_surely_as_near_ones(tmp_path: Path) -> None:
    off, measured = [], []
    for seed in range(SEEDS):
        state, _, _ = chain(tmp_path, seed, LOUD)
        deepest = state.nodes[-1]
        assert deepest.depth == DEEP
        for node in state.nodes[1:]:
            assert chains.sd_of(node) <= 1.05 * math.hypot(1.25, 1.0) * LOUD
        off += [error for depth, error in errors(state) if depth >= DEEP // 2]
        measured.append(state.spent.measurements)
        winner = state.best
        assert winner.log2 == pytest.approx(STEP * winner.depth, abs=4 * 1.6 * LOUD)
    assert float(np.sqrt(np.mean(np.square(off)))) < 1.6 * LOUD
    assert measured == [DEEP + 1] * SEEDS, "it costs no measurement more: one each, and the seed's"


def test_without_looking_at_baselines_errors_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "_LOOSE", math.inf)
    off = []
    for seed in range(SEEDS):
        state, _, _ = chain(tmp_path, seed, LOUD)
        assert chains.sd_of(state.nodes[-1]) == pytest.approx(math.sqrt(DEEP) * LOUD, rel=0.01)
        off += [error for depth, error in errors(state) if depth >= DEEP // 2]
    assert float(np.sqrt(np.mean(np.square(off)))) > 2 * LOUD


def test_on_a_quiet_machine_each_is_measured_against_its_parent(tmp_path: Path) -> None:
    state, _, _ = chain(tmp_path, 1, 0.003)
    assert [node.base for node in state.nodes[2:]] == [node.parent for node in state.nodes[2:]]


def test_old_logs_tell_no_baseline_and_fold_as_they_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "_LOOSE", math.inf)
    state, log, _ = chain(tmp_path, 1, LOUD)
    old = [event.model_copy(update={"against": ""}) if isinstance(event, Began) else event for event in log]
    assert fold(old) == state
    assert fold(log) == state


def test_a_claim_that_does_not_hold_moves_what_was_measured_against_it(tmp_path: Path) -> None:
    """The log says against what; `follow` goes by that, not by who is whose parent."""
    state, log, _ = chain(tmp_path, 2, LOUD)
    node = next(one for one in state.nodes if one.chained)
    below = [one.index for one in state.nodes if one.chained and one.base == node.base]
    base = state.nodes[node.base]
    before = {index: state.nodes[index].log2 or 0.0 for index in below}
    others = {one.index: one.log2 for one in state.nodes if one.index not in below and one.base != base.index}
    began = Began(work="measure", node=base.id, effort="claim", purpose="verify", against=state.nodes[0].id)
    found = Measured(
        node=base.id, effort="claim", purpose="verify", verdict="ok", log2=(base.log2 or 0.0) - 1.0, log2_low=None
    )
    moved = fold([*log[:-1], began, found])
    for index, log2 in before.items():
        assert moved.nodes[index].log2 == pytest.approx(log2 - 1.0)
    assert all(moved.nodes[index].log2 == log2 for index, log2 in others.items() if index != base.index)
