"""Which kernel is measured as a claim: the winner, or the one it was measured against, whose reading may be wrong."""

from __future__ import annotations

from .nodes import Node
from .state import MOST_LOST, State


def next_claim(state: State) -> Node | None:
    """What is to be measured as a claim: the anchor of one that did not hold, whose reading may be what was wrong, else
    the incumbent; None where that holds, or is the seed, or the machine failed on its claim again
    and again.
    """
    suspect = state.nodes[state.suspect]
    node = suspect if suspect.parent >= 0 and not suspect.verified and suspect.log2 is not None else state.best
    done = node.parent < 0 or node.verified or node.effort == "claim" or node.lost > MOST_LOST
    return None if done else node
