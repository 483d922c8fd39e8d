"""Candidates that an agent proposes: read, checked and appended to a search's log, all of one call at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from ...bench.tasks.builtin import builtin_names
from ...store import tasks
from ...store.database import Store
from ...store.errors import InputError, KforecastError
from ...store.models import Kernel
from ...store.searches import LogMoved, Search
from ..kernels import Asked, device_for, find_kernel
from .events import AnyEvent, OwnForecast, Proposed, Refused, node_id
from .log import SearchLog
from .state import State


class Candidate(BaseModel):
    """A candidate that an agent proposes: a kernel (id, path or source text) as a child of `parent_id`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parent_id: str
    kernel: str
    idea: str = ""
    own: OwnForecast | None = None


class Rejected(BaseModel):
    """A proposed candidate that was not taken, by its place in the list, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int
    why: str


def add_proposals(
    store: Store, search: Search, candidates: Sequence[Candidate], closed: InputError | None = None
) -> tuple[list[str], list[Rejected]]:
    """Append what is readable and new, all at once so that the search can rank it.

    Returns the nodes of what was accepted, in the order given: new ones, and those that their parents have already;
    and what was rejected: unreadable, of another task, of no parent, or a program that is elsewhere in the search.
    closed: why the search takes nothing new. Raises it where there is nothing but new things.
    """
    kernels: dict[int, Kernel] = {}
    wrong: dict[int, KforecastError] = {}
    for index, candidate in enumerate(candidates):
        try:
            kernels[index] = _readable(store, search, candidate)
        except KforecastError as error:
            wrong[index] = error
    while True:
        log = SearchLog(store, search.id)
        batch = _Batch(log.state, closed)
        nodes: list[str] = []
        refused: dict[int, KforecastError] = {}
        for index, kernel in kernels.items():
            try:
                nodes.append(batch.node_of(candidates[index], kernel))
            except InputError as error:
                refused[index] = error
        try:
            if batch.events:
                log.append(batch.events, new_kernels=batch.kernels)
        except LogMoved:
            continue
        if closed is not None and not nodes:
            raise closed
        told = sorted((wrong | refused).items())
        return nodes, [Rejected(index=index, why=str(error)[:300]) for index, error in told]


def _readable(store: Store, search: Search, candidate: Candidate) -> Kernel:
    """The kernel of a candidate. Raises InputError, also where it computes another task."""
    task = tasks.get(store, search.task_id)
    assert task is not None, "a search's task is saved before it"
    named = task.name if task.name in builtin_names() else None
    found = find_kernel(store, candidate.kernel, Asked(named, known=task))
    if found.task.id != task.id:
        raise InputError(
            "it computes another task", value=found.task.name, next_step=f"This search is for {task.name}."
        )
    device_for(found.kernel, search.device)
    return found.kernel


class _Batch:
    """Proposals that are appended together."""

    def __init__(self, state: State, closed: InputError | None) -> None:
        self._closed = closed
        self.events: list[AnyEvent] = []
        self.kernels: list[Kernel] = []
        self._state = state
        self._sources: dict[str, tuple[str, str]] = {}
        self._begun: Counter[str] = Counter()

    def node_of(self, candidate: Candidate, kernel: Kernel) -> str:
        """The node of a proposal, new or not. Raises InputError for an unknown parent and for a program elsewhere."""
        state = self._state
        place = state.by_id.get(candidate.parent_id)
        if place is None:
            raise InputError(
                "the search has no such parent", value=candidate.parent_id, next_step="Take a parent_id from `asks`."
            )
        parent = state.nodes[place]
        twin = self._twin(kernel.source_id)
        if twin is not None and twin[1] == parent.id:
            return twin[0]  # asked again, after a timeout say: proposing twice is proposing once
        if self._closed is not None:
            raise self._closed
        common: dict[str, Any] = {
            "clock": state.clock,
            "parent": parent.id,
            "ordinal": parent.begun + self._begun[parent.id],
        }
        self._begun[parent.id] += 1
        if twin is not None:
            self.events.append(Refused.model_validate({**common, "why": "duplicate", "detail": candidate.idea[:500]}))
            raise InputError(
                "the search has this program already",
                value=twin[0],
                next_step="Propose something that differs in more than comments and layout.",
            )
        proposed = Proposed.model_validate(
            {
                **common,
                "node": node_id(state.search_id, parent.id, common["ordinal"]),
                "kernel_id": kernel.id,
                "source_id": kernel.source_id,
                "idea": candidate.idea[:500],
                "tag": "agent",
                "generator": "agent",
                "own": candidate.own,
            }
        )
        self.events.append(proposed)
        self.kernels.append(kernel)
        self._sources[kernel.source_id] = (proposed.node, parent.id)
        return proposed.node

    def _twin(self, source_id: str) -> tuple[str, str] | None:
        """The node that has this program, and its parent ("" of the seed)."""
        found = self._state.sources.get(source_id)
        if found is None:
            return self._sources.get(source_id)
        node = self._state.nodes[found]
        return node.id, self._state.nodes[node.parent].id if node.parent >= 0 else ""
