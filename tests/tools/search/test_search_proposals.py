"""What an agent proposes in one call: one append, ranked before it is measured, the same again is the same."""

from __future__ import annotations

import pytest

from kforecast.tools.search.budget import Budget
from kforecast.tools.search.events import (
    AnyEvent,
    Began,
    Created,
    Decided,
    Forecasted,
    Measured,
    Proposed,
    SearchConfig,
    node_id,
)
from kforecast.tools.search.next_actions import Abilities, Measure, next_action
from kforecast.tools.search.policies.catalogue import policy_named
from kforecast.tools.search.state import State, fold

ROOT = node_id("s_1", "", 0)
AGENT = Abilities(asks=True)
COUNT = 4


def child(ordinal: int) -> str:
    return node_id("s_1", ROOT, ordinal)


def forecast(ordinal: int, median: float) -> list[AnyEvent]:
    told = Forecasted(
        node=child(ordinal), anchor=ROOT, forecaster="agent:one", p_correct=0.9, log2_median=median,
        log2_p10=median - 0.3, log2_p90=median + 0.3,
    )  # fmt: skip
    return [told, Decided(node=child(ordinal), decision="measure")]


def proposed(measurements: int | None) -> State:
    """A search whose seed is measured, with four proposals: the first is forecast, two more are being forecast."""
    config = SearchConfig(
        task_id="t", task_name="t", seed_id="k", device="cpu", generator="agent", verify=False,
        budget=Budget(measurements=measurements, wall_s=100),
    )  # fmt: skip
    log: list[AnyEvent] = [
        Created(search_id="s_1", config=config, source_id="p"),
        Began(work="measure", node=ROOT, purpose="seed"),
        Measured(node=ROOT, effort="quick", purpose="seed", verdict="ok", log2=0.0, seconds=1.0),
    ]
    for ordinal in range(COUNT):
        log.append(
            Proposed(
                node=child(ordinal), parent=ROOT, ordinal=ordinal, kernel_id=f"k{ordinal}", source_id=f"p{ordinal}"
            )
        )
    log += [Began(work="forecast", node=child(0)), *forecast(0, -0.1)]
    log += [Began(work="forecast", node=child(ordinal)) for ordinal in (1, 2)]
    return fold(log)


def test_with_few_measurements_left_the_best_forecast_is_waited_for() -> None:
    state, policy = proposed(measurements=3), policy_named("puct")
    assert next_action(state, policy, AGENT) is None
    for event in (*forecast(1, -0.2), Began(work="forecast", node=child(3)), *forecast(2, 0.0)):
        state.apply(event)
        assert not isinstance(next_action(state, policy, AGENT), Measure)
    for event in forecast(3, 2.0):
        state.apply(event)
    action = next_action(state, policy, AGENT)
    assert isinstance(action, Measure)
    assert state.nodes[action.index].id == child(3)


@pytest.mark.parametrize("measurements", [COUNT + 1, None])
def test_with_enough_for_all_nothing_is_waited_for(measurements: int | None) -> None:
    action = next_action(proposed(measurements=measurements), policy_named("puct"), AGENT)
    assert isinstance(action, Measure)
