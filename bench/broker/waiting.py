"""The queue of a device as its broker's hands see it: the requests whose turns come next, and what they need."""

from __future__ import annotations

from collections.abc import Callable

from ...store import requests
from ...store.clock import seconds_ago
from ...store.database import Store
from ...store.models import Request
from . import processes_alive
from .matching import Waiting
from .needs import Needs, needs_of
from .service import Service

_OF_EACH_HAND = 4
"""How many requests are looked at for each hand: there is something to choose from, and what comes next is compiled."""
_MANY = 256
LEFT_S = 2.0
"""How long a detached request is left to a broker of another kind: its client looks for one at once."""


class Queue:
    """Of one device. kind: the broker's fingerprint, "" where any request will do; is_watched: whether a client of this
    very kind waits for a request; service: compiles for the hands.
    """

    def __init__(
        self, store: Store, device: str, kind: str, is_watched: Callable[[str], bool], hands: int, service: Service
    ) -> None:
        self._store, self._device, self._kind = store, device, kind
        self._is_watched, self._hands, self._service = is_watched, hands, service
        self._known: dict[str, Waiting] = {}
        self._rows: dict[str, Request] = {}
        self._asked: set[str] = set()

    def look(self) -> list[Waiting]:
        """Those whose turns come next, in this order."""
        before = self._known
        if not self._read(_OF_EACH_HAND * self._hands, before):
            self._read(_MANY, before)
        self._asked &= self._known.keys()
        if self._hands > 1:  # else they are measured in their order, and compiled in it
            self._compile_all()
        return list(self._known.values())

    def compile_ahead(self, begun: Waiting) -> None:
        """Compile what waits besides the one that is begun now, as far as that can be done."""
        for name, row in self._rows.items():
            if name != begun.id and name not in self._asked and self._service.compile_ahead(row):
                self._asked.add(name)

    def _read(self, limit: int, before: dict[str, Waiting]) -> bool:
        """Look at so many; whether there is no need to look at more: they are all, or of use for every hand."""
        rows = requests.queue(self._store, self._device, limit=limit)
        own = [row for row in rows if not self._is_left(row)]
        self._rows = {row.id: row for row in own}
        self._known = {row.id: before.get(row.id) or self._waiting(row) for row in own}
        return len(rows) < limit or any(not one.needs.hosted for one in self._known.values())

    def _compile_all(self) -> None:
        if not self._service.compiles_ahead:
            return
        for name, one in self._known.items():
            row = self._rows[name]
            # One that nobody else waits with is compiled by who measures it.
            if len(self._known) > 1 and name not in self._asked and self._service.compile_ahead(row):
                self._asked.add(name)
            one.ready = one.needs.hosted or (name in self._asked and not self._service.is_compiling(row))

    def _waiting(self, row: Request) -> Waiting:
        # One hand has no choice.
        return Waiting(row.id, row.client, needs_of(self._store, row) if self._hands > 1 else Needs())

    def _is_left(self, row: Request) -> bool:
        """Whether it waits for a broker of another kind, which the client that asked will start: one that works here
        has other compilers, or other code. As long as that client waits elsewhere, else for a moment.
        """
        wanted = row.payload.get("broker", "")
        if not self._kind or wanted in ("", self._kind) or self._is_watched(row.id):
            return False
        waits = not row.payload.get("detached") and processes_alive.is_alive(row.client)
        return waits or row.created_at > seconds_ago(LEFT_S)
