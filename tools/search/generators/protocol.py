"""What a generator is: given a parent, another candidate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from ....store.models import Kernel, Task


@dataclass(frozen=True)
class Tried:
    """A child of the parent that was measured, or failed. log2 S against the search's seed."""

    idea: str
    verdict: str
    log2: float | None
    detail: str = ""


@dataclass(frozen=True)
class ProposalAsk:
    """Asking for child `ordinal` of a parent.

    seen: whether the search has a program already, by source id. Deterministic generators use `random_seed` for their
    order; history, time, floor and detail are for those that think.
    """

    parent: Kernel
    task: Task
    device: str
    ordinal: int
    random_seed: int
    seen: Callable[[str], bool]
    history: tuple[Tried, ...] = ()
    log2: float | None = None
    time_us: float | None = None
    percent_of_floor: float | None = None


@dataclass(frozen=True)
class Proposal:
    """A candidate: its kernel (not saved yet), what it tries, and the kind of idea it is."""

    kernel: Kernel
    idea: str
    tag: str
    usd: float = 0.0
    tokens: int = 0


@dataclass(frozen=True)
class Nothing:
    """No candidate: the parent is exhausted, or what came was unusable."""

    why: Literal["exhausted", "unusable"]
    detail: str = ""
    usd: float = 0.0
    tokens: int = 0


class Generator(Protocol):
    """A source of candidates. One that is deterministic proposes the same for one log and parent, whatever happened to
    its process; where it is not `inline`, it then looks at parent and ordinal only, not at what was seen meanwhile."""

    @property
    def name(self) -> str: ...

    @property
    def inline(self) -> bool:
        """It answers at once; else it is asked in a thread of its own."""
        ...

    @property
    def asks(self) -> bool:
        """Candidates come from outside, unasked; `propose` is never called."""
        ...

    def propose(self, ask: ProposalAsk) -> Proposal | Nothing:
        """Another candidate that the search has not seen."""
        ...
