"""Budgets, next actions and policies: limits hold, controls share everything but what is measured, halving promotes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from landscape import Bed, Children, Landscape, oracle

from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.tools.search.budget import Budget, Spent, limit_reached, parse_budget
from kforecast.tools.search.events import Began, Forecasted, Measured, Proposed
from kforecast.tools.search.log import read_events
from kforecast.tools.search.next_actions import next_action
from kforecast.tools.search.policies.catalogue import POLICIES, policy_named
from kforecast.tools.search.policies.value import expected_gain
from kforecast.tools.search.state import State, fold


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("200m,5min,$2", {"measurements": 200, "wall_s": 300, "usd": 2}),
        ("200m,2usd", {"measurements": 200, "usd": 2}),
        ("2.5 USD", {"usd": 2.5}),
        ("90gpu-s, 500c", {"gpu_seconds": 90, "candidates": 500}),
        ("1.5Mtok", {"tokens": 1_500_000}),
        ("2gpumin", {"gpu_seconds": 120}),
        ("3h", {"wall_s": 10_800}),
    ],
)
def test_budgets_as_people_write_them(text: str, limits: dict[str, float]) -> None:
    assert parse_budget(text).limits == limits


@pytest.mark.parametrize("text", ["", "200", "-3m", "0m", "5m,6m", "$", "2 weeks", "1e3m", "99999999999999999999m"])
def test_bad_budgets_are_told(text: str) -> None:
    with pytest.raises(InputError, match="budget"):
        parse_budget(text)


@pytest.mark.parametrize("text", ["200m,5min,", ",200m", "200m,,5min"])
def test_a_dollar_limit_that_a_shell_took_away_is_missed(text: str) -> None:
    with pytest.raises(InputError, match=r"missing between the commas.*\$2 as a variable: write 2usd"):
        parse_budget(text)


@given(st.integers(1, 50), st.integers(0, 60), st.integers(0, 5))
def test_counts_must_fit_with_what_is_in_flight(limit: int, spent: int, coming: int) -> None:
    reached = limit_reached(Budget(measurements=limit), Spent(measurements=spent), {"measurements": coming})
    assert (reached is None) == (spent + coming <= limit)


def test_extending_adds_up() -> None:
    assert Budget(measurements=5).extended(Budget(measurements=2, usd=1)).limits == {"measurements": 7, "usd": 1}


@pytest.mark.parametrize("seed", range(100))
def test_no_budget_is_overshot_by_more_than_the_work_in_flight(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = random.Random(seed)
    limits = {
        "measurements": chance.randint(1, 12),
        "candidates": chance.randint(1, 30),
        "gpu_seconds": chance.uniform(0.1, 9.0),
        "wall_s": chance.uniform(0.1, 9.0),
    }
    chosen = dict(chance.sample(sorted(limits.items()), chance.randint(1, 3)))
    if not chosen.keys() & {"measurements", "gpu_seconds", "wall_s"}:
        chosen["measurements"] = 10
    policy = chance.choice(sorted(POLICIES))
    in_flight = chance.randint(1, 4)
    with Store.open(tmp_path_factory.mktemp("budget") / "a.db") as store:
        bed = Bed(store, Landscape())
        state = bed.run(Budget.model_validate(chosen), policy=policy, measuring=in_flight, random_seed=seed)
        spent = state.spent
        assert spent.measurements <= chosen.get("measurements", 10**9)
        assert spent.candidates <= chosen.get("candidates", 10**9)
        most = max(
            (event.seconds for event in read_events(store, bed.search_id) if isinstance(event, Measured)), default=0
        )
        assert spent.gpu_seconds <= chosen.get("gpu_seconds", 1e9) + in_flight * most
        assert spent.wall_s <= chosen.get("wall_s", 1e9) + in_flight * most
        assert state.outcome == "completed"


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_the_contract_of_policies(bed: Bed, name: str) -> None:
    """Along a whole search: pure, never an ineligible node, never what is in flight already."""
    bed.forecaster = oracle()
    bed.run(Budget(measurements=25), policy=name)
    policy = policy_named(name)
    log = read_events(bed.store, bed.search_id)
    state = fold(log[:1])
    for event in log[1:]:
        before = fold(log[: state.events])
        choice, parent = policy.measure(state), policy.expand(state)
        assert (choice, parent) == (policy.measure(state), policy.expand(state))
        assert state == before, "a policy changed the state"
        if choice is not None:
            node = state.nodes[choice.index]
            assert node.state in ("ready", "measured")
            assert ("measure", node.id, 0, choice.effort) not in state.in_flight
        if parent is not None:
            expanded = state.nodes[parent]
            assert not expanded.exhausted and expanded.score is not None
            assert expanded.log2 is not None or expanded.begun == 0
        assert next_action(state, policy) == next_action(state, policy)
        state.apply(event)


def searched(tmp: object, policy: str, children: int = 60) -> tuple[State, list[object]]:
    store = Store.open(tmp / f"{policy}.db")  # type: ignore[operator]
    bed = Bed(store, Landscape())
    bed.forecaster = oracle()
    bed.children = Children(bed.landscape, most=children)
    state = bed.run(Budget(gpu_seconds=12.0), policy=policy, verify=False, exploration=0.0, random_seed=3)
    events = read_events(store, bed.search_id)
    store.close()
    return state, list(events)


def test_controls_share_the_generators_stream(tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp = tmp_path_factory.mktemp("controls")
    streams = {}
    for policy in ("puct", "control-random", "control-all"):
        _, events = searched(tmp, policy)
        proposed = [event for event in events if isinstance(event, Proposed)]
        streams[policy] = {(event.parent, event.ordinal): event.source_id for event in proposed}
    shared = streams["puct"].keys() & streams["control-random"].keys() & streams["control-all"].keys()
    assert len(shared) >= 3
    assert all(len({stream[key] for stream in streams.values()}) == 1 for key in shared)


def test_a_control_gives_forecasts_no_say(tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp = tmp_path_factory.mktemp("controls")
    for policy in ("control-random", "control-all"):
        state, events = searched(tmp, policy)
        assert any(isinstance(event, Forecasted) for event in events)
        assert not state.dropped and {node.decision for node in state.nodes[1:]} <= {"measure", ""}
    guided, _ = searched(tmp, "puct")
    assert guided.dropped


def test_control_all_measures_in_order_of_proposal(tmp_path_factory: pytest.TempPathFactory) -> None:
    state, events = searched(tmp_path_factory.mktemp("all"), "control-all")
    begun = [state.by_id[event.node] for event in events if isinstance(event, Began) and event.purpose == "explore"]
    assert begun == sorted(begun)
    assert len(begun) >= state.spent.candidates - 1


def test_good_forecasts_find_more_for_the_same_gpu_seconds(tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp = tmp_path_factory.mktemp("gain")
    guided, _ = searched(tmp, "puct")
    blind, _ = searched(tmp, "control-random")
    assert (guided.best.log2 or 0) > (blind.best.log2 or 0)
    assert guided.spent.candidates > guided.spent.measurements


def test_halving_promotes_the_best_third(bed: Bed) -> None:
    bed.children = Children(bed.landscape, most=27)
    state = bed.run(Budget(measurements=60), policy="halving", verify=False, speculate=1)
    measured = [event for event in read_events(bed.store, bed.search_id) if isinstance(event, Measured)]
    efforts = Counter(event.effort for event in measured)
    assert efforts["quick"] > efforts["normal"] > efforts["claim"] > 0
    assert state.best.effort == "claim"
    assert all(node.depth <= 1 for node in state.nodes)


def test_a_parent_is_measured_before_its_second_expansion(bed: Bed) -> None:
    bed.forecaster = oracle()
    bed.run(Budget(measurements=30))
    measured: set[str] = set()
    children: Counter[str] = Counter()
    for event in read_events(bed.store, bed.search_id):
        if isinstance(event, Measured):
            measured.add(event.node)
        elif isinstance(event, Proposed):
            assert event.parent in measured or children[event.parent] == 0
            children[event.parent] += 1


@given(st.floats(-2, 2), st.floats(0.05, 2), st.floats(-1, 1))
def test_expected_gain_is_what_a_simulation_says(mean: float, sd: float, incumbent: float) -> None:
    steps = [mean + sd * (place / 200 - 6) for place in range(2401)]
    weights = [2.718281828 ** (-0.5 * ((x - mean) / sd) ** 2) for x in steps]
    simulated = sum(w * max(0.0, x - incumbent) for w, x in zip(weights, steps, strict=True)) / sum(weights)
    assert expected_gain(mean, sd, incumbent) == pytest.approx(simulated, abs=1e-3)


def test_audits_measure_what_was_dropped_and_log_their_propensity(bed: Bed) -> None:
    bed.forecaster = oracle()
    state = bed.run(Budget(measurements=40), audit_rate=0.5)
    audits = [event for event in read_events(bed.store, bed.search_id) if isinstance(event, Measured)]
    audited = [event for event in audits if event.purpose == "audit"]
    assert audited and state.audited == len(audited)
    for event in audited:
        node = state.nodes[state.by_id[event.node]]
        assert (node.probability, node.decision) == (0.5, "drop")


def test_the_worker_is_asynchronous(bed: Bed) -> None:
    """Live, a straggler holds nobody up: others are measured while it runs."""
    bed.landscape.virtual = False
    bed.landscape.delay = lambda path: 0.5 if path == "/0" else 0.0
    bed.begin(Budget(measurements=6), measuring=2, verify=False, policy="control-all", speculate=1)
    asyncio.run(bed.worker().run())
    order = [path for path, _ in bed.landscape.measured]
    assert order.index("/0") > 2
