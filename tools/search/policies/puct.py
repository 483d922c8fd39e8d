"""`puct` and the controls: max-reward PUCT over an archive of all candidates, after TTT-Discover (arXiv 2601.16175).

A parent is chosen by Q + c · range · P · sqrt(1 + T) / (1 + n): Q its best child's score (its own before it has one), P
a prior falling linearly with its rank, n how often it or a descendant was expanded, T all expansions, and range the
spread of the measured scores. While a proposal is under way its parent's lineage is left alone.

There a parent's children are all measured before one of them is chosen; here most wait. Two rules stand for that: a
search begins with `breadth` children of the seed, and what was not measured is built on only where it promises more
than the incumbent. Without them the newest candidate, of which n is 0, is always the next parent, and its child the one
after it: a chain of guesses that does not come back to the seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..state import State
from .beginning import begins, promises
from .lineages import busy_lineages, descends_from
from .protocol import Choice, speculates
from .rules import by_rule

CONSIDERED = 128
"""Nodes of the archive that are looked at, best first: the prior of those behind them is next to nothing."""
_LEAST_RANGE = 0.05


@dataclass(frozen=True)
class Puct:
    """Max-reward PUCT over candidates, measured and unmeasured."""

    name: str = "puct"
    guided: bool = True

    def expand(self, state: State) -> int | None:
        """The best of the archive, but for unmeasured ones that promise little or were expanded already, and lineages
        under way; the seed at first."""
        if begins(state):
            return 0
        blocked = busy_lineages(state)
        spare = None
        for index in _by_priority(state):
            node = state.nodes[index]
            if node.log2 is None and not promises(state, node):
                continue
            if blocked and (index in blocked or descends_from(state, node, blocked)):
                spare = index if spare is None else spare
                continue
            return index
        return spare

    def ranked(self, state: State) -> list[int]:
        """The measured nodes of the archive, best to expand first."""
        return [index for index in _by_priority(state) if state.nodes[index].log2 is not None]

    def measure(self, state: State) -> Choice | None:
        """A parent that should be expanded a second time comes first; else what is worth most."""
        first = next(iter(_by_priority(state)), None)
        if first is not None and first in state.ready and state.nodes[first].begun > 0:
            return Choice(first, state.config.effort)
        index = by_rule(state, "value")
        return None if index is None else Choice(index, state.config.effort)

    def wants_more(self, state: State) -> bool:
        """`speculate` candidates for each one measured, and a search's beginning."""
        return begins(state) or speculates(state)


def _by_priority(state: State) -> list[int]:
    """Indices of the archive's first nodes, by PUCT score, best first."""
    archive = state.archive
    count = len(archive)
    if not count:
        return []
    top = state.best.log2 or 0.0
    spread = max(top - state.least, _LEAST_RANGE)
    weight = state.config.exploration * spread * math.sqrt(1 + state.expansions) * 2 / (count * (count + 1))
    scored = []
    for rank, (negative, index) in enumerate(archive.entries[:CONSIDERED]):
        node = state.nodes[index]
        child = node.best_kid(lambda place: state.nodes[place].score)
        best = -negative if child is None else child
        scored.append((-(best + weight * (count - rank) / (1 + node.visits)), index))
    scored.sort()
    return [index for _, index in scored]
