"""Searches that learn as they go: what waits is forecast again, candidates of one anchor go in one question, parents
are chosen by what their children taught."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from landscape import Bed, Children, oracle, share

from kforecast.surrogate.contract import MOST_CANDIDATES
from kforecast.tools.search.budget import Budget
from kforecast.tools.search.events import AnyEvent, Began, Decided, Forecasted, Proposed
from kforecast.tools.search.forecasting import ForecastAsk, Outlook, ScriptedForecaster
from kforecast.tools.search.log import read_events
from kforecast.tools.search.next_actions import MOST_TOGETHER
from kforecast.tools.search.policies.catalogue import policy_named
from kforecast.tools.search.state import fold


def log_of(bed: Bed) -> list[AnyEvent]:
    return read_events(bed.store, bed.search_id)


def learner(told: list[int]) -> ScriptedForecaster:
    """A forecaster whose spread shrinks with what it knows; notes how much that was at every answer."""

    def script(ask: ForecastAsk) -> Outlook:
        told.append(len(ask.learnt))
        wide = 1.0 / (1 + len(ask.learnt))
        seen = {one.kernel.id for one in ask.learnt}
        assert ask.kernel.id not in seen and ask.anchor.id in seen
        return Outlook("scripted", 0.9, 0.1, 0.1 - wide, 0.1 + wide)

    return ScriptedForecaster(script, renews="scripted")


def test_what_waits_is_forecast_again_as_the_search_learns(bed: Bed) -> None:
    told: list[int] = []
    bed.forecaster = learner(told)
    state = bed.run(Budget(measurements=20), verify=False)
    forecasts: Counter[str] = Counter()
    begun: set[str] = set()
    for event in log_of(bed):
        if isinstance(event, Began) and event.work == "measure":
            begun.add(event.node)
        elif isinstance(event, Forecasted):
            assert event.node not in begun, "too late: it is being measured"
            forecasts[event.node] += 1
        elif isinstance(event, Decided):
            assert forecasts[event.node] >= 1
    assert max(forecasts.values()) >= 4 and max(told) >= 15
    assert sum(isinstance(event, Decided) for event in log_of(bed)) == state.spent.candidates
    waiting = [state.nodes[index] for index in state.waiting]
    assert waiting and all(node.informed >= 12 for node in waiting)
    assert fold(log_of(bed)) == state


def test_no_forecast_but_the_learners_own_is_renewed(bed: Bed) -> None:
    bed.forecaster = dataclasses.replace(oracle(), renews="somebody else")
    bed.run(Budget(measurements=15))
    told = Counter(event.node for event in log_of(bed) if isinstance(event, Forecasted))
    assert set(told.values()) == {1}


def test_candidates_of_one_anchor_go_in_one_question_where_it_costs(bed: Bed) -> None:
    questions: list[list[str]] = []

    class Paid(ScriptedForecaster):
        def outlooks(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
            questions.append([ask.anchor.id for ask in asks])
            return [Outlook("paid", 0.9, 0.0, -0.5, 0.5, usd=0.01) for _ in asks]

    bed.forecaster = Paid(lambda ask: Outlook("paid"), inline=False, costs=True)
    state = bed.run(Budget(measurements=12), verify=False, breadth=8)
    assert max(map(len, questions)) >= 8 and sum(map(len, questions)) == state.spent.candidates
    assert all(len(set(anchors)) == 1 and len(anchors) <= MOST_TOGETHER for anchors in questions)
    assert MOST_TOGETHER <= MOST_CANDIDATES


def test_gain_begins_broad_and_then_follows_what_children_taught(bed: Bed) -> None:
    bed.children = Children(bed.landscape, most=12)
    state = bed.run(Budget(measurements=40), verify=False, breadth=8)
    first = [event.parent for event in log_of(bed) if isinstance(event, Proposed)][:8]
    assert set(first) == {state.nodes[0].id}
    improved = [node for node in state.nodes[1:] if node.begun > 0]
    assert improved and all(node.verdict == "ok" for node in improved), "no forecast promised more than the incumbent"
    most = max(improved, key=lambda node: node.begun)
    assert (most.log2 or 0.0) > 0.0


def test_a_parent_of_unlike_children_is_worth_more_than_one_of_equal_ones(bed: Bed) -> None:
    """Two children of the seed read alike; the lineage whose children differ is improved further."""
    bed.children = Children(bed.landscape, most=30)

    def read(path: str) -> float:
        steps = path.split("/")[1:]
        if len(steps) <= 1:
            return 0.0 if not steps else {"0": 1.0, "1": 1.0}.get(steps[0], -3.0)
        return 1.0 + (1.6 * (share(path) - 0.5) if steps[0] == "1" else -0.1)

    def replaced(job: object, outcome: object) -> object:
        path = bed.landscape.by_id[job.kernel_id]  # type: ignore[attr-defined]
        base = bed.landscape.by_id.get(job.baseline_id or "", "")  # type: ignore[attr-defined]
        log2 = read(path) - read(base)
        return dataclasses.replace(outcome, verdict="ok", log2=log2, log2_low=log2, log2_high=log2)  # type: ignore[type-var]

    bed.landscape.outcome = replaced  # type: ignore[assignment]
    state = bed.run(Budget(measurements=40), policy="control-all", verify=False, breadth=2, speculate=1)
    visits = {bed.landscape.by_id[node.kernel_id]: node.visits for node in state.nodes}
    assert visits["/1"] > 2 * visits["/0"], visits
    assert policy_named("gain").expand(state) == policy_named("gain").expand(state)
