"""Readings that stand on others: S against an ancestor, and that ancestor's own S, make S against the seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .nodes import Node

if TYPE_CHECKING:
    from .state import State


def first_of_chain(nodes: Sequence[Node], node: Node) -> int:
    """The first unverified one of those that a reading stands on: measured against the seed itself, or against what
    was verified."""
    first = nodes[node.anchor]
    while first.chained and not nodes[first.anchor].verified:
        first = nodes[first.anchor]
    return first.index


def follow(state: State, anchor: int, change: float) -> None:
    """Move along what was measured against a node that now reads otherwise, and what was measured against that: a lucky
    reading must not live on in what came of it. change: octaves."""
    moved = {anchor}
    for node in state.nodes[anchor + 1 :]:
        if not (node.chained and node.anchor in moved and node.log2 is not None):
            continue
        moved.add(node.index)
        state.moved.append(node.index)
        if not node.censored:
            state.ranking.discard(node.log2, node.index)
            state.ranking.add(node.log2 + change, node.index)
        node.log2 += change
        node.low = None if node.low is None else node.low + change
        node.high = None if node.high is None else node.high + change
        state.set_score(node, node.log2)
