"""What `gain` and `puct` share: how wide a search begins, and what may be built on before it is measured."""

from __future__ import annotations

from ..state import Node, State


def begins(state: State) -> bool:
    """Whether the seed is still to get the first `breadth` of its children, so that there is something to compare."""
    root = state.nodes[0]
    return root.begun < state.config.breadth and not root.exhausted and root.log2 is not None


def promises(state: State, node: Node) -> bool:
    """Whether an unmeasured candidate is forecast to beat the incumbent, and nothing was built on it yet."""
    return node.begun == 0 and (node.score or 0.0) > (state.best.log2 or 0.0)
