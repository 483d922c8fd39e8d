"""`halving`: asynchronous successive halving over the children of the seed, i.e. over its declared tunables.

Each candidate is measured roughly first; the best in `eta` of those measured so far go on to the next effort, as soon
as they are among the best, so that a straggler holds nobody up (Li et al., "A System for Massively Parallel
Hyperparameter Tuning", MLSys 2020). Forecasts choose who is measured first, and those that promise nothing never are.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....store.models import Effort
from ..state import State
from .protocol import Choice, speculates
from .value import most_valuable

RUNGS: tuple[Effort, ...] = ("quick", "normal", "claim")


@dataclass(frozen=True)
class Halving:
    """Successive halving; the rungs are the efforts of a measurement."""

    name: str = "halving"
    guided: bool = True

    def expand(self, state: State) -> int | None:
        """The seed, until its generator has nothing more."""
        return None if state.nodes[0].exhausted or state.nodes[0].log2 is None else 0

    def measure(self, state: State) -> Choice | None:
        """A promotion, the highest first; else the waiting candidate worth most, at the first rung."""
        for rung in range(len(RUNGS) - 2, -1, -1):
            promoted = _promotion(state, rung)
            if promoted is not None:
                return Choice(promoted, RUNGS[rung + 1])
        return Choice(most_valuable(state), RUNGS[0]) if state.ready else None

    def wants_more(self, state: State) -> bool:
        """As `puct`: `speculate` candidates a measurement."""
        return speculates(state)


def _promotion(state: State, rung: int) -> int | None:
    """The best node of a rung that is in its top 1/eta and was not taken further; None: none is."""
    reached = [index for index in state.ranking if _rung(state, index) >= rung]
    for index in reached[: len(reached) // state.config.eta]:
        node = state.nodes[index]
        if (
            _rung(state, index) == rung
            and node.lost == 0
            and ("measure", node.id, 0, RUNGS[rung + 1]) not in state.in_flight
        ):
            return index
    return None


def _rung(state: State, index: int) -> int:
    """The highest rung a node was measured at; the root is in none."""
    effort = state.nodes[index].effort
    return -1 if index == 0 or effort is None else RUNGS.index(effort)
