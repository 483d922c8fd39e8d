"""A candidate of a search as the log tells it."""

from __future__ import annotations

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
    censored: bool = False
    time_us: float | None = None
    percent_of_floor: float | None = None
    measurement_id: str | None = None
    detail: str = ""
    lost: int = 0
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
    kids: list[tuple[float, int]] = field(default_factory=list, compare=False)
    """Heap of (-score, child); entries may be stale."""
