"""What a measurement is worth: the gain it may find and what it teaches, in octaves of S per GPU second."""

from __future__ import annotations

import math

from ..state import Node, State

_NO_FORECAST = (0.75, -0.2, 0.7)
"""(P(correct), median, sd) of log2 S of a candidate that nobody forecast."""
CONSIDERED = 64
"""Waiting candidates that are looked at, best score first."""
_LEAST_SD = 0.02
_LEARNING = 8.0
"""Measurements after which teaching counts half."""


def expected_gain(mean: float, sd: float, incumbent: float) -> float:
    """E[max(0, X - incumbent)] of a normal X: the expected improvement (Jones et al., J. Global Optim. 13, 1998)."""
    sd = max(sd, _LEAST_SD)
    z = (mean - incumbent) / sd
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    share = 0.5 * math.erfc(-z / math.sqrt(2))
    return (mean - incumbent) * share + sd * density


def belief(state: State, node: Node) -> tuple[float, float, float]:
    """(P(correct), mean, sd) of log2 S against the seed, from forecast and anchor, uncertainties added."""
    anchor = state.nodes[node.anchor] if node.median is not None else state.measured_ancestor(node)
    p, median, sd = _NO_FORECAST
    if node.p_correct is not None and node.median is not None:
        p, median, sd = node.p_correct, node.median, node.sd
    known = 0.0
    if anchor.low is not None and anchor.high is not None:
        known = (anchor.high - anchor.low) / 3.92
    return p, (anchor.log2 or 0.0) + median, math.hypot(sd, known)


def value_of_measuring(state: State, node: Node) -> float:
    """Expected gain over the incumbent plus what the result teaches, in octaves per relative measuring cost.

    Teaching falls with every measurement made (the first ones are chosen to be diverse, later ones to win), and with
    those of the same kind of idea. A kernel that is not right costs no timing, about a third.
    """
    p, mean, sd = belief(state, node)
    gain = p * expected_gain(mean, sd, state.best.log2 or 0.0)
    fresh = 1 / (1 + state.tags.get(node.tag, 0))
    teaching = state.config.teach * sd * fresh * _LEARNING / (_LEARNING + state.explored)
    return (gain + 0.1 * teaching) / (p + (1 - p) / 3)


def most_valuable(state: State) -> int:
    """The waiting candidate that is worth most to measure; the earliest of equals. At least one must wait."""
    return max(
        state.waiting.best(CONSIDERED),
        key=lambda index: (value_of_measuring(state, state.nodes[index]), -index),
    )
