"""What a search answers: where it stands, its best kernel, what it spent, what it asks for, and what to do now."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pydantic import BaseModel, ConfigDict

from ...store.searches import Search, SearchState
from ..words import ratio_text
from .log import counts, state_word
from .next_actions import PAUSED_BY_ORDER
from .nodes import NodeState
from .questions import tried
from .state import Node, State

POLL_AFTER_S = 5.0
MOST_ASKS = 3
MOST_DETAIL = 300


class SearchAnswer(BaseModel):
    """Base of the answers below: immutable plain data."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Best(SearchAnswer):
    """The best measured kernel and its S against the seed, with its interval. verified: measured again, as a claim."""

    kernel_id: str
    speedup: float
    low: float | None
    high: float | None
    verified: bool
    time_us: float | None


class TriedBefore(SearchAnswer):
    """What was tried from a parent, and S against the seed or how it failed."""

    idea: str
    verdict: str
    speedup: float | None


class Ask(SearchAnswer):
    """A parent that is worth improving, and why. source_path: a copy of its source, in the cache. forecast_against: the
    kernel that forecasts of its children are against: the parent where it was measured, else what it descends from.
    """

    parent_id: str
    kernel_id: str
    why: str
    source_path: str
    forecast_against: str
    bottleneck: str
    tried: tuple[TriedBefore, ...]


class CandidateResult(SearchAnswer):
    """What became of one candidate. S, forecast or measured, is against the seed; p_faster is against the nearest
    measured ancestor, given that it is correct. reason: of the decision; detail: what went wrong. Null: not known yet.
    """

    kernel_id: str
    node_id: str
    parent_id: str | None
    idea: str
    state: NodeState
    decision: str | None
    reason: str | None
    p_correct: float | None
    p_faster: float | None
    forecast_speedup: float | None
    verdict: str | None
    detail: str | None
    speedup: float | None
    low: float | None
    high: float | None
    measurement_id: str | None


class SearchResult(SearchAnswer):
    """The answer of `search`, `search_propose` and of a look at a search. S is always against the search's seed."""

    summary: str
    search_id: str
    state: SearchState
    reason: str | None
    best: Best | None
    spent: dict[str, float]
    limits: dict[str, float]
    counts: dict[str, int]
    asks: tuple[Ask, ...] = ()
    cursor: int
    poll_after_s: float | None
    next: str
    task: str
    device: str
    policy: str
    generator: str
    forecaster: str
    seed_id: str


def search_result(search: Search, state: State, asks: Sequence[Ask] = (), *, worked_on: bool = True) -> SearchResult:
    """The answer for a search as its log tells it. worked_on: whether a worker lives."""
    best = best_of(state)
    word = state_word(state)
    return SearchResult(
        summary=_summary(search, state, word, best),
        search_id=search.id,
        state=word,
        reason=state.reason or None,
        best=best,
        spent={name: value for name, value in state.spent.as_dict().items() if value},
        limits=state.budget.limits,
        counts=counts(state),
        asks=tuple(asks),
        cursor=state.events,
        poll_after_s=POLL_AFTER_S if word in ("working", "stopping") else None,
        next=_next(search, word, best, worked_on, troubled=paused_by_trouble(word, state.reason)),
        task=search.task_name,
        device=search.device,
        policy=search.policy,
        generator=search.generator,
        forecaster=search.forecaster,
        seed_id=search.seed_id,
    )


def best_of(state: State) -> Best | None:
    """The incumbent; None while it is the seed."""
    node = state.winner
    if node.parent < 0 or node.log2 is None:
        return None
    return Best(
        kernel_id=node.kernel_id,
        speedup=_ratio(node.log2) or 1.0,
        low=_ratio(node.low),
        high=_ratio(node.high),
        verified=node.verified or node.effort == "claim",
        time_us=node.time_us,
    )


def candidate_of(state: State, node: Node) -> CandidateResult:
    """What became of a candidate by now; the seed is one, too."""
    forecast = None if node.median is None else (state.nodes[node.anchor].log2 or 0.0) + node.median
    return CandidateResult(
        kernel_id=node.kernel_id,
        node_id=node.id,
        parent_id=None if node.parent < 0 else state.nodes[node.parent].id,
        idea=node.idea,
        state=node.state,
        decision=node.decision or None,
        reason=node.reason or None,
        p_correct=node.p_correct,
        p_faster=node.p_faster,
        forecast_speedup=_ratio(forecast),
        verdict=node.verdict,
        detail=node.detail[:MOST_DETAIL] or None,
        speedup=_ratio(node.log2),
        low=_ratio(node.low),
        high=_ratio(node.high),
        measurement_id=node.measurement_id,
    )


def asks_of(state: State, indices: Sequence[int], path_of: Callable[[str], str]) -> list[Ask]:
    """What an agent is asked to improve: the parents that the policy would expand. path_of: a file with the source of
    the kernel of that id."""
    return [_ask(state, state.nodes[index], path_of) for index in indices[:MOST_ASKS]]


def _ask(state: State, node: Node, path_of: Callable[[str], str]) -> Ask:
    before = tried(state, node)
    if node.log2 is not None and node is state.best:
        why = "the best measured kernel so far" if node.parent >= 0 else "the seed; nothing measured is faster yet"
    elif node.log2 is not None:
        why = f"measured at S = {ratio_text(_ratio(node.log2))}, and little was tried from it"
    else:
        why = "forecast to be fast, not measured yet"
    return Ask(
        parent_id=node.id,
        kernel_id=node.kernel_id,
        why=why,
        source_path=path_of(node.kernel_id),
        forecast_against=(node if node.log2 is not None else state.measured_ancestor(node)).kernel_id,
        bottleneck=_bottleneck(node),
        tried=tuple(TriedBefore(idea=one.idea[:80], verdict=one.verdict, speedup=_ratio(one.log2)) for one in before)[
            :5
        ],
    )


def _bottleneck(node: Node) -> str:
    if node.percent_of_floor is None:
        return "the floor is unknown"
    if node.percent_of_floor > 80:
        return f"at {node.percent_of_floor:.0f}% of the floor: hardly anything left"
    return f"at {node.percent_of_floor:.0f}% of the floor: up to {100 / node.percent_of_floor:.1f}x left"


def _summary(search: Search, state: State, word: str, best: Best | None) -> str:
    tally = f"{state.spent.candidates} candidates, {state.spent.measurements} measured"
    if best is None:
        found = "nothing faster than the seed"
    else:
        sure = "verified" if best.verified else "not verified"
        if best.low is not None and best.low <= 1:
            sure += ", may be a tie"
        found = f"best {ratio_text(best.speedup)}x the seed ({sure})"
    return f"{search.task_name} on {search.device}, {word}: {found} after {tally}."


def paused_by_trouble(state: str, reason: str | None) -> bool:
    """Whether a search rests because the machinery failed again and again, not because somebody told it to."""
    return state == "paused" and reason != PAUSED_BY_ORDER


def _next(search: Search, word: str, best: Best | None, worked_on: bool, *, troubled: bool) -> str:
    report = f"`kforecast search report {search.id}` shows all of it."
    if word == "input_required":
        return "Improve one of `asks` and give candidates to search_propose; look at the brief of a forecast first."
    if word in ("working", "stopping"):
        if worked_on:
            return f"Look again in {POLL_AFTER_S:g} s: get_status(id='{search.id}')."
        return f"Its worker is gone: `kforecast search resume {search.id}` goes on where it stopped."
    trouble = "Put right what the reason says; then " if troubled else ""
    stopped = {
        "paused": f"{trouble}`kforecast search resume {search.id}` goes on. {report}",
        "cancelled": f"`kforecast search resume {search.id}` goes on. {report}",
        "failed": "Put right what the reason says, then start a new search.",
    }
    if word in stopped:
        return stopped[word]
    if best is None:
        return f"Try another generator, or more budget: `kforecast search resume {search.id} --extend 100m`. {report}"
    return f"`kforecast search report {search.id} --save FILE` writes the best kernel. {report}"


def _ratio(log2: float | None) -> float | None:
    return None if log2 is None or not math.isfinite(log2) else 2.0**log2
