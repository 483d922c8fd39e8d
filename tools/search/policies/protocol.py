"""What a policy decides: the parent to expand next, the candidate to measure next. Both are pure functions of state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ....store.models import Effort
from ..state import State


@dataclass(frozen=True)
class Choice:
    """A candidate to measure, by its index."""

    index: int
    effort: Effort


class Policy(Protocol):
    """A policy. It never changes the state, and looks at nothing else."""

    @property
    def name(self) -> str: ...

    @property
    def guided(self) -> bool:
        """Whether forecasts may drop candidates and give the unmeasured their scores. The controls' may not."""
        ...

    def expand(self, state: State) -> int | None:
        """The node to ask the generator for another child of; None: nothing can be expanded (now)."""
        ...

    def measure(self, state: State) -> Choice | None:
        """The candidate to measure next, out of those that wait; None: none."""
        ...

    def wants_more(self, state: State) -> bool:
        """Whether another candidate should be proposed before the next measurement."""
        ...


def speculates(state: State) -> bool:
    """Whether fewer candidates were proposed than `speculate` for each measurement, the next one included."""
    proposed = state.spent.candidates + state.in_flight_count("propose")
    return proposed < state.config.speculate * (state.explored + 1)
