"""From a measurement against some ancestor to S against the search's seed."""

from __future__ import annotations

import math

from .bench import Outcome
from .events import Began, Measured
from .state import Node, State


def measured_event(state: State, node: Node, began: Began, outcome: Outcome, clock: float) -> Measured:
    """The event of an outcome: where it was against an ancestor, that ancestor's log2 S is added, and the halves of
    both intervals are added in quadrature, as for independent errors."""
    log2, low, high = outcome.log2, outcome.log2_low, outcome.log2_high
    through = state.nodes[node.anchor]
    if log2 is not None and began.purpose != "verify" and state.config.against == "anchor" and through.parent >= 0:
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
