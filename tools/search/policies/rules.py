"""How the next candidate to measure is chosen out of those that wait."""

from __future__ import annotations

import hashlib
from typing import Literal

from ..state import State
from .value import most_valuable

Rule = Literal["value", "order", "random"]


def by_rule(state: State, rule: Rule) -> int | None:
    """The candidate worth most, the first in order, or one at random; None where none waits."""
    if not state.ready:
        return None
    if rule == "order":
        return next(iter(state.ready))
    if rule == "random":
        return list(state.ready)[_draw(state) % len(state.ready)]
    return most_valuable(state)


def _draw(state: State) -> int:
    text = f"{state.config.random_seed}\nmeasure\n{state.explored}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
