"""Generators that know all their candidates of a parent in advance, in an order drawn from the search's seed."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TypeVar

from ....store.models import Kernel, Task
from .protocol import Nothing, Proposal, ProposalAsk

_PARENTS = 64
T = TypeVar("T")


class ListGenerator:
    """Proposes the first candidate of the parent's list that the search has not seen.

    The list depends on parent and seed alone, and what was seen once stays seen, so where a list is read on from is no
    state of its own: whoever begins it anew comes to the same place.
    """

    name = "list"
    inline = True
    asks = False

    def __init__(self) -> None:
        self._open: OrderedDict[str, Iterator[Proposal]] = OrderedDict()

    def candidates(self, parent: Kernel, task: Task, seed: int) -> Iterator[Proposal]:
        """All candidates of a parent, in order."""
        raise NotImplementedError

    def propose(self, ask: ProposalAsk) -> Proposal | Nothing:
        """The next unseen one."""
        if ask.parent.id not in self._open:
            self._open[ask.parent.id] = self.candidates(ask.parent, ask.task, ask.random_seed)
            if len(self._open) > _PARENTS:
                self._open.popitem(last=False)
        self._open.move_to_end(ask.parent.id)
        for proposal in self._open[ask.parent.id]:
            if not ask.seen(proposal.kernel.source_id):
                return proposal
        return Nothing("exhausted")


class Together:
    """Several inline generators that take turns; who has nothing more is passed over."""

    asks = False
    inline = True

    def __init__(self, parts: Sequence[ListGenerator]) -> None:
        self.name = "+".join(part.name for part in parts)
        self._parts = tuple(parts)

    def propose(self, ask: ProposalAsk) -> Proposal | Nothing:
        """The turn is the child's ordinal."""
        for offset in range(len(self._parts)):
            found = self._parts[(ask.ordinal + offset) % len(self._parts)].propose(ask)
            if isinstance(found, Proposal):
                return found
        return Nothing("exhausted")


def shuffled(items: Sequence[T], seed: str) -> list[T]:
    """The items in an order that follows from the seed's text."""
    keyed = [(hashlib.sha256(f"{seed}\n{place}".encode()).digest(), place) for place in range(len(items))]
    return [items[place] for _, place in sorted(keyed)]
