"""`gain`: improves the parent whose next child is expected to gain most over the incumbent, and measures likewise.

What the next child of a parent may be is normal: about the parent, or where the parent has children, about them, the
more the more there are; as spread as children are about parents in this search. Its expected improvement (Jones et al.,
J. Global Optim. 13, 1998) is what the parent is worth. A parent whose children differ much is worth another look,
however slow it is itself; one whose children all come out alike soon is not. A search begins with `breadth` children
of the seed, so that there is something to compare. The controls run the same code without forecasts, and choose only
differently what to measure: everything in order, or at random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..state import Node, State
from .beginning import begins, promises
from .lineages import busy_lineages, descends_from
from .protocol import Choice, speculates
from .rules import Rule, by_rule
from .value import belief, expected_gain

CONSIDERED = 128
"""Nodes of the archive that are looked at, best first."""
_STEP = (-0.1, 0.3)
"""Mean and standard deviation of a child's log2 S less its parent's, before there are examples."""
_STEP_COUNT = 4.0
"""Examples that these count for."""
_PARENT_COUNT = 2.0
"""Children that a parent itself counts for."""


@dataclass(frozen=True)
class Gain:
    """rule: how the next candidate to measure is chosen. guided: see `Policy.guided`."""

    name: str = "gain"
    rule: Rule = "value"
    guided: bool = True

    def expand(self, state: State) -> int | None:
        """The parent worth most, but for unmeasured ones that were expanded already, and lineages under way."""
        if begins(state):
            return 0
        blocked = busy_lineages(state)
        spare = None
        for index in self.ranked(state, measured=False):
            node = state.nodes[index]
            if blocked and (index in blocked or descends_from(state, node, blocked)):
                spare = index if spare is None else spare
                continue
            return index
        return spare

    def ranked(self, state: State, *, measured: bool = True) -> list[int]:
        """Nodes of the archive that may be expanded, best first. measured: only those that were measured."""
        spread = _spread(state)
        found = []
        for index in state.archive.best(CONSIDERED):
            node = state.nodes[index]
            if node.log2 is not None or (not measured and promises(state, node)):
                found.append((-_worth(state, node, spread), index))
        return [index for _, index in sorted(found)]

    def measure(self, state: State) -> Choice | None:
        """By the rule."""
        index = by_rule(state, self.rule)
        return None if index is None else Choice(index, state.config.effort)

    def wants_more(self, state: State) -> bool:
        """`speculate` candidates for each one measured; in order, one at a time."""
        if self.rule == "order":
            return not state.ready and state.in_flight_count("propose") == 0
        return begins(state) or speculates(state)


def _spread(state: State) -> float:
    """Standard deviation of children about their parents, of those of this search that were measured."""
    count, squares = state.steps
    return math.sqrt((_STEP_COUNT * _STEP[1] ** 2 + squares) / (_STEP_COUNT + count))


def _worth(state: State, node: Node, spread: float) -> float:
    """Expected gain of the parent's next child over the incumbent."""
    # That an unmeasured parent may turn out well is a reason to measure it, not to build on it.
    mean, p = node.score or 0.0, 1.0 if node.log2 is not None else belief(state, node)[0]
    count, total, squares = node.children
    weight = _PARENT_COUNT + count
    middle = (_PARENT_COUNT * (mean + _STEP[0]) + total) / weight
    about = max(0.0, squares - 2 * middle * total + count * middle**2)
    variance = (_PARENT_COUNT * spread**2 + about) / weight
    return p * expected_gain(middle, math.sqrt(variance * (1 + 1 / weight)), state.best.log2 or 0.0)
