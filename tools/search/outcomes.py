"""From what generators, forecasters and benches give to the events that tell of it."""

from __future__ import annotations

import math

from .bench import Outcome
from .chains import base_of
from .events import (
    AnyEvent,
    Began,
    Decided,
    Exhausted,
    Forecasted,
    Lost,
    Measured,
    Proposed,
    Refused,
    SearchConfig,
    node_id,
)
from .forecasting import Outlook, audit_draw
from .generators.protocol import Nothing, Proposal
from .state import Node, State


def proposal_event(
    state: State, parent: Node, ordinal: int, result: Proposal | Nothing, generator: str, clock: float
) -> Proposed | Refused | Exhausted:
    """The event of what a generator gave: a program that the search has already is refused."""
    if isinstance(result, Nothing):
        if result.why == "exhausted":
            return Exhausted(clock=clock, parent=parent.id)
        return Refused(
            clock=clock,
            parent=parent.id,
            ordinal=ordinal,
            why="unusable",
            detail=result.detail[:500],
            usd=result.usd,
            tokens=result.tokens,
        )
    common = {"clock": clock, "parent": parent.id, "ordinal": ordinal, "usd": result.usd, "tokens": result.tokens}
    twin = state.sources.get(result.kernel.source_id)
    if twin is not None:
        same = f"{result.idea}: the same program as {state.nodes[twin].id}"
        return Refused.model_validate({**common, "why": "duplicate", "detail": same[:500]})
    return Proposed.model_validate(
        {
            **common,
            "node": node_id(state.search_id, parent.id, ordinal),
            "kernel_id": result.kernel.id,
            "source_id": result.kernel.source_id,
            "idea": result.idea[:500],
            "tag": result.tag,
            "generator": generator,
        }
    )


def forecast_events(
    config: SearchConfig, node: str, anchor: Node, outlook: Outlook, clock: float, *, guided: bool
) -> list[AnyEvent]:
    """The forecast and the decision on it: one append, so that no forecast is without its decision."""
    forecasted = forecasted_event(node, anchor, outlook, clock)
    if not guided:
        reason = "A control measures without looking at forecasts."
        return [forecasted, Decided(clock=clock, node=node, decision="measure", reason=reason)]
    probability, audited = audit_draw(node, outlook.decision, config.audit_rate, config.random_seed)
    if outlook.audited is not None:
        probability, audited = outlook.probability, outlook.audited
    decided = Decided(
        clock=clock,
        node=node,
        decision=outlook.decision,
        answer=outlook.answer,
        reason=outlook.reason[:500],
        final=outlook.final,
        probability=probability,
        audited=audited and not outlook.final,
    )
    return [forecasted, decided]


def forecasted_event(node: str, anchor: Node, outlook: Outlook, clock: float) -> Forecasted:
    """The event of a forecast."""
    return Forecasted(
        clock=clock,
        node=node,
        anchor=anchor.id,
        forecaster=outlook.forecaster,
        p_correct=outlook.p_correct,
        log2_median=outlook.log2_median,
        log2_p10=outlook.log2_p10,
        log2_p90=outlook.log2_p90,
        p_faster=outlook.p_faster,
        forecast_id=outlook.forecast_id,
        problem=outlook.problem[:500],
        usd=outlook.usd,
        tokens=outlook.tokens,
    )


def measured_event(state: State, node: Node, began: Began, outcome: Outcome, clock: float) -> Measured:
    """The event of an outcome: where it was against an ancestor, that ancestor's log2 S is added, and the halves of
    both intervals are added in quadrature, as for independent errors."""
    log2, low, high = outcome.log2, outcome.log2_low, outcome.log2_high
    through = state.nodes[base_of(state, node, began.purpose, began)]
    if log2 is not None and through.parent >= 0:
        base = through.log2 or 0.0
        below = math.hypot(log2 - (log2 if low is None else low), base - (base if through.low is None else through.low))
        above = math.hypot(
            (log2 if high is None else high) - log2, (base if through.high is None else through.high) - base
        )
        log2 = base + log2
        low, high = log2 - below, log2 + above
    return Measured(
        clock=clock,
        node=node.id,
        effort=began.effort,
        purpose=began.purpose,
        verdict=outcome.verdict,
        log2=log2,
        log2_low=low,
        log2_high=high,
        seconds=outcome.seconds,
        lost_seconds=outcome.lost_seconds,
        time_us=outcome.time_us,
        censored=outcome.censored,
        quarantined=outcome.quarantined,
        percent_of_floor=outcome.percent_of_floor,
        detail=outcome.detail,
        measurement_id=outcome.measurement_id,
        attempts=outcome.attempts,
    )


def lost_event(began: Began, clock: float, why: str, *, called_off: bool = False) -> Lost:
    """The event of work that ended without an outcome."""
    return Lost(
        clock=clock,
        work=began.work,
        node=began.node,
        ordinal=began.ordinal,
        effort=began.effort,
        why=why[:500],
        called_off=called_off,
    )
