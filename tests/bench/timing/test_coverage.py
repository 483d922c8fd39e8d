"""The promises under simulated noise, with peeking: coverage, false comparisons. Limits are 4 standard errors off."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from statistics import NormalDist
from types import ModuleType

import numpy as np
import pytest

from kforecast.bench.timing.intervals import signed_rank_interval
from kforecast.bench.timing.looks import level_at, obrien_fleming, pocock
from kforecast.bench.timing.plan import plan_for


def _load() -> ModuleType:
    path = Path(__file__).parents[3] / "scripts" / "simulate_timing.py"
    spec = importlib.util.spec_from_file_location("simulate_timing", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SIMULATION = _load()
MODELS = {model.name: model for model in SIMULATION.MODELS}
PROMISED = [model.name for model in SIMULATION.MODELS if model.promised]


def margin(rate: float, replicates: int) -> float:
    return 4 * math.sqrt(rate * (1 - rate) / replicates)


@pytest.mark.parametrize("name", PROMISED)
def test_quick_covers_and_seldom_errs_on_equal_sides(name: str) -> None:
    row = SIMULATION.simulate(MODELS[name], "quick", 0.0, replicates=1000, seed=11)
    assert row.covered >= 0.95 - margin(0.05, 1000)
    assert row.wrong <= 0.05 + margin(0.05, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["heavy tails (t, 2 df)", "spikes on the candidate alone"])
def test_normal_covers_whatever_look_it_stops_at(name: str) -> None:
    row = SIMULATION.simulate(MODELS[name], "normal", 0.0, replicates=80, seed=12)
    assert row.covered >= 0.95 - margin(0.05, 80)
    assert row.wrong <= 0.05 + margin(0.05, 80)


@pytest.mark.slow
def test_a_claim_holds_where_processes_differ_and_blocks_alone_would_not() -> None:
    different = MODELS["processes differ by 1%"]
    claim = SIMULATION.simulate(different, "claim", 0.0, replicates=30, seed=13)
    assert claim.faster == 0
    assert claim.covered >= 0.95 - margin(0.05, 30)
    normal = SIMULATION.simulate(different, "quick", 0.0, replicates=200, seed=13)
    assert normal.covered < 0.7, "one run shares its process's luck: this is what a claim is for"


def test_autocorrelated_blocks_break_the_promise_and_are_told() -> None:
    waves = MODELS["slow waves, candidate alone"]
    row = SIMULATION.simulate(waves, "quick", 0.0, replicates=300, seed=14)
    assert row.covered < 0.9
    assert not row.promised


def test_peeking_without_spending_would_err() -> None:
    """Three looks at 5% each: the error that the levels of `level_at` keep away."""
    plan = plan_for("normal", sample_s=1e-3, cases=1)
    rng = np.random.default_rng(15)
    naive = spent = 0
    for _ in range(1000):
        data = rng.normal(0, 1, 32).tolist()
        naive += any(_misses(data[:look], 0.05) for look in plan.looks)
        spent += any(_misses(data[:look], level_at(look, plan, last=look == 32)) for look in plan.looks)
    assert spent / 1000 <= 0.05 + margin(0.05, 1000)
    assert naive > 1.5 * spent


def test_adding_levels_up_costs_little_against_the_gaussian_boundary() -> None:
    """The boundary of Lan & DeMets by simulation of the sums at the looks, beside the one used here."""
    shares = np.array([8, 16, 32]) / 32
    rng = np.random.default_rng(16)
    sums = np.cumsum(rng.normal(size=(200_000, 3)) * np.sqrt(np.diff(shares, prepend=0.0)), axis=1)
    scores = np.abs(sums) / np.sqrt(shares)
    for spending in (pocock, obrien_fleming):
        alive = np.ones(len(scores), dtype=bool)
        before = 0.0
        for look, share in enumerate(shares):
            level = spending(float(share), 0.05) - before
            before += level
            reach = NormalDist().inv_cdf(1 - level / 2)
            if level * len(scores) < 100:
                continue
            boundary = np.sort(scores[alive, look])[-round(level * len(scores))]
            assert boundary <= reach * 1.02
            assert reach <= boundary * 1.08
            alive &= scores[:, look] < boundary


def _misses(data: list[float], level: float) -> bool:
    found = signed_rank_interval(data, level)
    return not found.low <= 0 <= found.high
