"""What to do next: a pure function of state, configuration and the search's clock. The loop only carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...store.models import Effort
from .budget import limit_reached
from .events import Purpose
from .policies.protocol import Policy
from .policies.value import belief, expected_gain
from .state import MOST_LOST, Node, State
from .verification import next_claim

PAUSED_BY_ORDER = "It was paused."
_MOST_RESERVED = 0.25
"""Share of the GPU seconds that is kept back for verifying the winner, at most."""
MOST_LOST_IN_A_ROW = 3 * (MOST_LOST + 1)
"""Measurements lost one after the other from which on the search pauses: three candidates, each tried to the end."""
MOST_TOGETHER = 16
"""Candidates in one question to a forecaster."""
_MOST_DROPPED = 4
"""Times `speculate` candidates that may be dropped for each one measured before what was dropped is looked at again."""
_MOST_RENEWED = 128
"""Waiting candidates that are forecast once more at a time, best first."""
_WORTH_REVIVING = 1e-3
"""Expected gain in octaves below which what was dropped stays dropped."""


@dataclass(frozen=True)
class Propose:
    """Ask the generator for child `ordinal` of a node."""

    index: int
    ordinal: int


@dataclass(frozen=True)
class AskForecast:
    """Ask the forecaster about candidates of one anchor; forbidden: why it may not be asked, or ''."""

    indices: tuple[int, ...]
    forbidden: str = ""


@dataclass(frozen=True)
class Renew:
    """Forecast candidates that wait once more: the search has learnt since."""

    indices: tuple[int, ...]


@dataclass(frozen=True)
class Revive:
    """Measure what was dropped after all."""

    index: int


@dataclass(frozen=True)
class Measure:
    """Measure a candidate."""

    index: int
    effort: Effort
    purpose: Purpose


@dataclass(frozen=True)
class CallOff:
    """Cancel the measurements in flight."""


@dataclass(frozen=True)
class Finish:
    """End the search, for now."""

    outcome: Literal["completed", "failed", "cancelled", "paused"]
    reason: str


Action = Propose | AskForecast | Renew | Revive | Measure | CallOff | Finish


@dataclass(frozen=True)
class Abilities:
    """What the engine must know of generator and forecaster. asks: proposals come from outside, unasked."""

    asks: bool = False
    costs: bool = False
    """The forecaster takes money or tokens."""
    renews: str = ""
    """Whose forecasts are to be renewed as the search learns."""


def next_action(state: State, policy: Policy, abilities: Abilities | None = None) -> Action | None:
    """The next thing to begin; None: wait for what is in flight, or for somebody's word."""
    able = abilities or Abilities()
    if state.phase == "ended":
        return None
    if state.phase != "running":
        return _wind_up(state)
    if state.nodes[0].log2 is None:
        return _plant(state)
    if state.lost_in_a_row >= MOST_LOST_IN_A_ROW:
        return _give_up(state)
    return _grow(state, policy, able) or _end(state, able)


def _plant(state: State) -> Action | None:
    """The seed comes first: it is the baseline of everything, so it must be right."""
    root = state.nodes[0]
    if root.verdict is not None:
        return Finish("failed", f"The seed is not ok: {root.verdict}. {root.detail}".strip())
    if root.lost > MOST_LOST:
        return Finish("failed", f"The seed could not be measured. {root.detail}".strip())
    return None if state.in_flight else Measure(0, state.config.effort, "seed")


def _wind_up(state: State) -> Action | None:
    if state.in_flight:
        return CallOff()
    if state.phase == "stopping":
        return Finish("cancelled", "It was stopped.")
    return Finish("paused", PAUSED_BY_ORDER)


def _give_up(state: State) -> Action | None:
    """Every candidate would fail as the last ones did: until somebody has looked at the device, trying is of no use."""
    if state.in_flight:
        return CallOff()
    return Finish(
        "paused", f"The last {state.lost_in_a_row} measurements failed for reasons other than kernels. {state.trouble}"
    )


def _grow(state: State, policy: Policy, able: Abilities) -> Action | None:
    """Forecast, propose or measure; None: none of them can begin now."""
    if not able.costs and (ask := _question(state, able)) is not None:
        return ask
    for index in state.audits:
        if _may_measure(state):
            return Measure(index, state.config.effort, "audit")
    more = policy.wants_more(state) or _starves(state)
    if more and not able.asks:
        proposal = _proposal(state, policy)
        if proposal is not None:
            return proposal
    if able.costs and (ask := _question(state, able)) is not None:
        return ask  # not before all that is to be proposed is there: candidates of one anchor go in one question
    if (more and not able.asks and state.in_flight_count("propose") > 0) or not _may_measure(state):
        return None
    stale = _stale(state, able)
    return Renew(stale) if stale else _measurement(state, policy)


def _question(state: State, able: Abilities) -> AskForecast | None:
    """The first candidate that waits for its forecast, and others of its anchor where that saves money."""
    first = next(iter(state.to_forecast), None)
    if first is None or state.in_flight_count("forecast") >= state.config.proposing:
        return None
    forbidden = _forecast_forbidden(state, state.nodes[first], able)
    if forbidden or not able.costs:
        return AskForecast((first,), forbidden)
    anchor = state.measured_ancestor(state.nodes[first])
    near = [
        index
        for index in state.to_forecast
        if state.measured_ancestor(state.nodes[index]) is anchor and state.nodes[index].unheard <= MOST_LOST
    ]
    return AskForecast(tuple(near[:MOST_TOGETHER]))


def _stale(state: State, able: Abilities) -> tuple[int, ...]:
    """Those that wait and were forecast when the search knew a fifth less than now."""
    if not able.renews:
        return ()
    known = len(state.measured)
    nodes = (state.nodes[index] for index in state.waiting.best(_MOST_RENEWED))
    return tuple(
        node.index for node in nodes if node.forecaster == able.renews and known > node.informed + node.informed // 5
    )


def _forecast_forbidden(state: State, node: Node, able: Abilities) -> str:
    if node.unheard > MOST_LOST:
        return "The forecaster could not be asked."
    over = limit_reached(state.budget, state.spent, {}) if able.costs else None
    return "" if over is None else f"The budget is spent: {over}."


def _starves(state: State) -> bool:
    """Nothing waits, since forecasts dropped what was proposed: more is worth proposing, within reason."""
    enough = _MOST_DROPPED * state.config.speculate * (state.explored + 1)
    return not state.ready and state.spent.candidates < enough


def _proposal(state: State, policy: Policy) -> Propose | None:
    full = state.in_flight_count("propose") >= state.config.proposing
    if full or proposing_forbidden(state) or _measuring_forbidden(state, ahead=False):
        return None
    index = policy.expand(state)
    return None if index is None else Propose(index, state.nodes[index].begun)


def _may_measure(state: State) -> bool:
    return state.in_flight_count("measure") < state.config.measuring and _measuring_forbidden(state) is None


def _measurement(state: State, policy: Policy) -> Measure | None:
    choice = None if _must_choose(state) else policy.measure(state)
    return None if choice is None else Measure(choice.index, choice.effort, "explore")


def _must_choose(state: State) -> bool:
    """Whether an agent's proposals are still being forecast, and too few measurements are left for all that wait: the
    first ones to be forecast are not the best ones."""
    coming = len(state.to_forecast) + state.in_flight_count("forecast")
    limit = state.budget.measurements
    if state.config.generator != "agent" or not coming or limit is None:
        return False
    return coming + len(state.ready) > limit - state.spent.measurements - state.in_flight_count("measure")


def proposing_forbidden(state: State) -> str | None:
    """The limit that forbids another proposal, or None."""
    waiting = state.in_flight_count("propose")
    return limit_reached(state.budget, state.spent, {"candidates": waiting + 1})


def _measuring_forbidden(state: State, *, ahead: bool = True) -> str | None:
    """The limit that forbids another exploring measurement, or None.

    ahead: what is in flight counts as spent already, which it is not where the question is whether to go on at all.
    """
    flying = [begun for begun in state.in_flight.values() if begun.work == "measure"] if ahead else []
    coming = {
        "measurements": len(flying) + 1.0,
        "gpu_seconds": sum(state.durations.mean(begun.effort) for begun in flying),
    }
    if state.config.verify and state.best.parent >= 0 and not state.best.verified:
        limit = state.budget.gpu_seconds or 0.0
        coming["gpu_seconds"] += min(state.durations.mean("claim"), _MOST_RESERVED * limit)
        wanted = 2 if state.best.chained else 1  # its own reading, and the one that stands on
        coming["measurements"] += min(wanted, (state.budget.measurements or 0) // 3)
    return limit_reached(state.budget, state.spent, coming)


def _end(state: State, able: Abilities) -> Action | None:
    """Nothing more can be explored now: wait for what is in flight, revive, verify the winner, then finish."""
    if state.in_flight:
        return None
    forbidden = _measuring_forbidden(state)
    if forbidden is None:
        revived = _revival(state)
        if revived is not None:
            return Revive(revived.index)
    reached = forbidden or proposing_forbidden(state)
    if able.asks and reached is None:
        return None
    unverified = _to_verify(state)
    if unverified is not None:
        return Measure(unverified.index, "claim", "verify")
    if reached is None:
        return Finish("completed", "Everything there was to try was tried.")
    return Finish("completed", f"The budget is spent: {reached}.")


def _revival(state: State) -> Node | None:
    """The dropped candidate that may gain most, where it is worth a measurement."""
    incumbent = state.best.log2 or 0.0
    found: tuple[float, Node] | None = None
    for index in state.dropped:
        node = state.nodes[index]
        if node.final or node.decision == "trust":
            continue
        p, mean, sd = belief(state, node)
        gain = p * expected_gain(mean, sd, incumbent)
        if gain > _WORTH_REVIVING and (found is None or gain > found[0]):
            found = (gain, node)
    return None if found is None else found[1]


def _to_verify(state: State) -> Node | None:
    """The winner, where it is to be measured again and the budget still allows it."""
    if not state.config.verify:
        return None
    verified = sum(1 for node in state.nodes if node.effort == "claim") if "claim" in state.durations.sums else 0
    if verified >= state.config.verify_most or limit_reached(state.budget, state.spent, {"measurements": 1}):
        return None
    return next_claim(state)
