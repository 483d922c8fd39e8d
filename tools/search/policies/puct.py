"""`puct` and the controls: max-reward PUCT over an archive of all candidates, after TTT-Discover (arXiv 2601.16175).

A parent is chosen by Q + c · range · P · sqrt(1 + T) / (1 + n): Q its best child's score (its own before it has one), P
a prior falling linearly with its rank, n how often it or a descendant was expanded, T all expansions, and range the
spread of the measured scores. While a proposal is under way its parent's lineage is left alone. The controls run the
same code and choose only differently what to measure: everything in order, or at random.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Literal

from ..state import Node, State
from .protocol import Choice, speculates
from .value import most_valuable

CONSIDERED = 128
"""Nodes of the archive that are looked at, best first: the prior of those behind them is next to nothing."""
_LEAST_RANGE = 0.05
Rule = Literal["value", "order", "random"]


@dataclass(frozen=True)
class Puct:
    """rule: how the next candidate to measure is chosen. guided: see `Policy.guided`."""

    name: str = "puct"
    rule: Rule = "value"
    guided: bool = True

    def expand(self, state: State) -> int | None:
        """The best of the archive, but for unmeasured ones that were expanded already, and lineages under way."""
        blocked = _busy_lineages(state)
        spare = None
        for index in _by_priority(state):
            node = state.nodes[index]
            if node.log2 is None and node.begun > 0:
                continue
            if blocked and (index in blocked or _descends(state, node, blocked)):
                spare = index if spare is None else spare
                continue
            return index
        return spare

    def ranked(self, state: State) -> list[int]:
        """The measured nodes of the archive, best to expand first."""
        return [index for index in _by_priority(state) if state.nodes[index].log2 is not None]

    def measure(self, state: State) -> Choice | None:
        """By the rule; under `value` a parent that should be expanded a second time comes first."""
        effort = state.config.effort
        if not state.ready:
            return None
        if self.rule == "order":
            return Choice(next(iter(state.ready)), effort)
        if self.rule == "random":
            place = _draw(state) % len(state.ready)
            return Choice(list(state.ready)[place], effort)
        first = next(iter(_by_priority(state)), None)
        if first is not None and first in state.ready and state.nodes[first].begun > 0:
            return Choice(first, effort)
        return Choice(most_valuable(state), effort)

    def wants_more(self, state: State) -> bool:
        """`control-all` measures whatever is proposed; the others choose among `speculate` candidates each time."""
        if self.rule == "order":
            return not state.ready and state.in_flight_count("propose") == 0
        return speculates(state)


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
        child = state.best_child_score(node)
        best = -negative if child is None else child
        scored.append((-(best + weight * (count - rank) / (1 + node.visits)), index))
    scored.sort()
    return [index for _, index in scored]


def _busy_lineages(state: State) -> set[int]:
    """The parents of proposals under way, and all above them."""
    busy: set[int] = set()
    for work, node, _, _ in state.in_flight:
        index = state.by_id[node] if work == "propose" else -1
        while index >= 0 and index not in busy:
            busy.add(index)
            index = state.nodes[index].parent
    return busy


def _descends(state: State, node: Node, blocked: set[int]) -> bool:
    """Whether a proposal is under way from an ancestor that is not the root, from which everything descends."""
    under_way = {state.by_id[key[1]] for key in state.in_flight if key[0] == "propose"} & blocked
    index = node.parent
    while index > 0:
        if index in under_way:
            return True
        index = state.nodes[index].parent
    return False


def _draw(state: State) -> int:
    text = f"{state.config.random_seed}\nmeasure\n{state.explored}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
