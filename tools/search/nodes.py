"""A candidate of a search as the log tells it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from ...store.models import Effort
from .events import OwnForecast

NodeState = Literal["proposed", "ready", "dropped", "measured", "failed"]


@dataclass(slots=True)
class Node:
    """A candidate, or the root. log2 S is against the seed; `anchor` is the node that its forecast is against."""

    index: int
    id: str
    parent: int
    ordinal: int
    depth: int
    kernel_id: str
    source_id: str
    idea: str = ""
    tag: str = ""
    own: OwnForecast | None = None
    state: NodeState = "proposed"
    anchor: int = 0
    base: int = 0
    """What it was measured against: its anchor, or an ancestor of that."""
    forecaster: str = ""
    informed: int = 0
    """Kernels that the search had measured when it was forecast."""
    p_correct: float | None = None
    median: float | None = None
    p_faster: float | None = None
    sd: float = 0.0
    decision: str = ""
    reason: str = ""
    final: bool = False
    probability: float = 1.0
    audited: bool = False
    verdict: str | None = None
    log2: float | None = None
    low: float | None = None
    high: float | None = None
    effort: Effort | None = None
    verified: bool = False
    chained: bool = False
    """Its log2 S is its base's and the ratio to it that was measured."""
    censored: bool = False
    time_us: float | None = None
    percent_of_floor: float | None = None
    measurement_id: str | None = None
    detail: str = ""
    lost: int = 0
    """Times the machinery failed on it since it was measured last."""
    unproposed: int = 0
    """Times its generator failed."""
    unheard: int = 0
    """Times its forecaster failed."""
    begun: int = 0
    """Proposals asked for from it: the ordinal of the next child."""
    visits: int = 0
    """Expansions of it or its descendants."""
    refused: int = 0
    exhausted: bool = False
    score: float | None = None
    listed: float | None = None
    """The score under which it stands in the archive."""
    children: tuple[int, float, float] = (0, 0.0, 0.0)
    """Of its children's scores: how many there are, their sum, the sum of their squares."""
    kids: list[tuple[float, int]] = field(default_factory=list, compare=False)
    """Heap of (-score, child); entries may be stale."""

    def child_scored(self, index: int, before: float | None, now: float | None) -> None:
        """A child has another score, or has none any more."""
        for score, sign in ((before, -1), (now, 1)):
            if score is not None:
                count, total, squares = self.children
                self.children = count + sign, total + sign * score, squares + sign * score**2
        if now is not None:
            heapq.heappush(self.kids, (-now, index))

    def best_kid(self, score_of: Callable[[int], float | None]) -> float | None:
        """The score of the best child that has one."""
        while self.kids and score_of(self.kids[0][1]) != -self.kids[0][0]:
            heapq.heappop(self.kids)
        return -self.kids[0][0] if self.kids else None
