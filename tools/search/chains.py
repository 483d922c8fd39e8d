"""Readings that stand on others: S against an ancestor, and that ancestor's own S, make S against the seed.

The noise of both adds up, and grows from ancestor to ancestor: on a loud machine a kernel twenty steps deep may read
ten times what it is. So a kernel whose own S is not known well is no baseline. The nearest ancestor that is, or the
seed, is one: what is read then stands on hardly more than two readings, however deep it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .events import Began, Purpose
from .nodes import Node

if TYPE_CHECKING:
    from .state import State

_LOOSE = 1.25
"""An ancestor's standard deviation over that of a usual reading against the seed, from which it is no baseline."""
_TIGHT = 0.02
"""Octaves; below this it is one in any case: against a near kernel a measurement takes less time than against the seed.
"""
_LEAST_SD = 1e-4
_Z95 = 1.959964


def sd_of(node: Node) -> float:
    """Standard deviation of a measured log2 S against the seed, octaves; infinite where an end is not known."""
    return math.inf if node.low is None or node.high is None else (node.high - node.low) / (2 * _Z95)


def base_for(state: State, node: Node, purpose: Purpose) -> int:
    """What a measurement that is to begin is to be against."""
    if purpose == "verify" or state.config.against == "seed" or node.parent < 0:
        return 0
    count, logs = state.readings
    loose = max(_TIGHT, _LOOSE * math.exp(logs / count) if count else 0.0)
    base = state.nodes[node.anchor]
    while base.parent >= 0 and sd_of(base) > loose:
        base = state.measured_ancestor(base)
    return base.index


def base_of(state: State, node: Node, purpose: Purpose, began: Began | None) -> int:
    """What a measurement is against, once begun. Logs that do not tell are of searches that asked no more of an anchor
    than to be the nearest."""
    if began is not None and began.against:
        return state.by_id[began.against]
    return 0 if purpose == "verify" or state.config.against == "seed" else node.anchor


def note_reading(state: State, node: Node) -> None:
    """Learn how loud readings are, from those that stand on nothing but the seed."""
    sd = sd_of(node)
    if not node.chained and node.parent >= 0 and math.isfinite(sd):
        count, logs = state.readings
        state.readings = count + 1, logs + math.log(max(sd, _LEAST_SD))


def first_of_chain(nodes: Sequence[Node], base: int) -> int:
    """The first unverified one of those that a reading against `base` stands on: measured against the seed itself, or
    against what was verified."""
    first = nodes[base]
    while first.chained and not nodes[first.base].verified:
        first = nodes[first.base]
    return first.index


def follow(state: State, base: int, change: float) -> None:
    """Move along what was measured against a node that now reads otherwise, and what was measured against that: a lucky
    reading must not live on in what came of it. change: octaves."""
    moved = {base}
    for node in state.nodes[base + 1 :]:
        if not (node.chained and node.base in moved and node.log2 is not None):
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
