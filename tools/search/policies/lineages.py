"""Lineages under way: while a proposal of a parent is made, its ancestors and descendants are left alone."""

from __future__ import annotations

from ..state import Node, State


def busy_lineages(state: State) -> set[int]:
    """The parents of proposals under way, and all above them."""
    busy: set[int] = set()
    for work, node, _, _ in state.in_flight:
        index = state.by_id[node] if work == "propose" else -1
        while index >= 0 and index not in busy:
            busy.add(index)
            index = state.nodes[index].parent
    return busy


def descends_from(state: State, node: Node, blocked: set[int]) -> bool:
    """Whether a proposal is under way from an ancestor that is not the root, from which everything descends."""
    under_way = {state.by_id[key[1]] for key in state.in_flight if key[0] == "propose"} & blocked
    index = node.parent
    while index > 0:
        if index in under_way:
            return True
        index = state.nodes[index].parent
    return False
