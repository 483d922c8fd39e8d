"""What somebody told a search to do, and what that makes of its phase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from .events import Told

if TYPE_CHECKING:
    from .state import State

Phase = Literal["running", "stopping", "pausing", "ended"]


def obey(state: State, event: Told) -> None:
    """Take an order in. More budget wakes a search that had completed; what failed stays so."""
    if event.order == "extend" and event.budget is not None:
        state.budget = state.budget.extended(event.budget)
        if state.phase == "ended" and state.outcome == "completed":
            state.phase = "running"
    elif event.order == "resume":
        if state.phase != "running" and state.outcome != "failed":
            state.phase, state.outcome, state.reason = "running", "", ""
            state.lost_in_a_row = 0
    elif state.phase != "ended":
        state.phase = "stopping" if event.order == "stop" else "pausing"
    elif event.order == "stop" and state.outcome == "paused":
        state.outcome, state.reason = "cancelled", "It was stopped."
