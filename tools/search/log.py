"""A search's log as one process sees it: the state folded from it, and appends that keep both in step."""

from __future__ import annotations

from collections.abc import Sequence

from ...store import searches
from ...store.clock import utc_now
from ...store.database import Store
from ...store.errors import InputError, StoreError
from ...store.models import Kernel
from ...store.searches import Search, SearchNode, SearchState
from .events import AnyEvent, Created, from_row, to_row
from .state import Node, State, begin, fold

_PAGE = 5000


class SearchLog:
    """owner: the worker whose lease appends need; None for a client that only says something."""

    def __init__(self, store: Store, search_id: str, owner: str | None = None) -> None:
        found = searches.get(store, search_id)
        if found is None:
            raise InputError(
                "The store has no search with that id", value=search_id, next_step="`kforecast search list` lists them."
            )
        self._store = store
        self._owner = owner
        self._search = found
        self._version = -1
        self.state = self._folded()

    def through(self, store: Store) -> None:
        """Go on with another connection to the same store."""
        self._store, self._version = store, -1

    def _folded(self) -> State:
        state: State | None = None
        seen = -1
        while True:
            rows = searches.events(self._store, self._search.id, after=seen, limit=_PAGE)
            for row in rows:
                event = from_row(row)
                if state is not None:
                    state.apply(event)
                elif isinstance(event, Created):
                    state = begin(event)
                seen = row.ordinal
            if len(rows) < _PAGE:
                break
        if state is None:
            raise StoreError(
                "A search has no beginning", value=self._search.id, next_step="Only another program can have done that."
            )
        return state

    def catch_up(self, *, look: bool = False) -> bool:
        """Take in what others appended; whether there was anything. look: even if no other connection wrote."""
        version = self._store.data_version()
        if version == self._version and not look:
            return False
        self._version = version
        rows = searches.events(self._store, self.state.search_id, after=self.state.events - 1)
        for row in rows:
            self.state.apply(from_row(row))
        return bool(rows)

    def append(self, events: Sequence[AnyEvent], *, new_kernels: Sequence[Kernel] = ()) -> None:
        """Append and take in. new_kernels: of these events.

        Raises LogMoved, after which the state is what the log says, without these events; LeaseLost.
        """
        start = self.state.events
        touched: dict[int, None] = {}
        for event in events:
            self.state.apply(event)
            about = getattr(event, "node", None)
            if about is not None and event.kind != "began":
                touched[self.state.by_id[about]] = None
            touched |= dict.fromkeys(self.state.moved)
        if start == 1:
            touched = {0: None, **touched}
        rows = [to_row(event, start + offset) for offset, event in enumerate(events)]
        nodes = [self._row(self.state.nodes[index]) for index in touched]
        try:
            row = self.summary()
            searches.append(self._store, row, rows, nodes, new_kernels=new_kernels, owner=self._owner)
        except StoreError:
            self.state = self._folded()
            raise

    def summary(self) -> Search:
        """The search's row as the state has it."""
        state = self.state
        best = state.winner if state.ranking else None
        return self._search.model_copy(
            update={
                "state": state_word(state),
                "best_id": None if best is None else best.kernel_id,
                "best_log2": None if best is None else best.log2,
                "events": state.events,
                "counts": counts(state),
                "spent": state.spent.as_dict(),
                "limits": state.budget.limits,
                "reason": state.reason,
                "updated_at": utc_now(),
            }
        )

    def _row(self, node: Node) -> SearchNode:
        state = self.state
        forecast = None
        if node.median is not None:
            forecast = (state.nodes[node.anchor].log2 or 0.0) + node.median
        return SearchNode(
            id=node.id,
            search_id=state.search_id,
            ordinal=node.index,
            parent_id=None if node.parent < 0 else state.nodes[node.parent].id,
            kernel_id=node.kernel_id,
            state=node.state,
            idea=node.idea,
            log2_speedup=node.log2,
            log2_low=node.low,
            log2_high=node.high,
            forecast_log2=forecast,
            p_correct=node.p_correct,
            verdict=node.verdict,
            measurement_id=node.measurement_id,
            created_at=utc_now(),
        )


def state_word(state: State) -> SearchState:
    """The search's state in the word that answers use. A search that waits for proposals has nothing else to do."""
    if state.phase == "ended":
        words: dict[str, SearchState] = {"failed": "failed", "cancelled": "cancelled", "paused": "paused"}
        return words.get(state.outcome, "completed")
    if state.phase == "running":
        busy = state.in_flight or state.ready or state.audits or state.to_forecast or state.nodes[0].log2 is None
        return "working" if busy or state.config.generator != "agent" else "input_required"
    return "stopping"


def counts(state: State) -> dict[str, int]:
    """How many candidates came to what."""
    return {
        "proposed": state.spent.candidates,
        "measured": state.spent.measurements,
        "dropped": len(state.dropped),
        "audited": state.audited,
        "failed": state.failed,
        "refused": state.refusals,
        "waiting": len(state.ready) + len(state.audits),
    }


def read_events(store: Store, search_id: str) -> list[AnyEvent]:
    """A whole log."""
    return [from_row(row) for row in searches.events(store, search_id)]


def folded(store: Store, search_id: str) -> State:
    """The state that a stored log tells."""
    return fold(read_events(store, search_id))
