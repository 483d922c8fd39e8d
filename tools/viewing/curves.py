"""How the best of each search rose and what was decided in it: kept between looks, so that only news are read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...store import pages
from ...store.database import Store
from ...store.searches import Search


@dataclass
class Curve:
    """What is known of one search so far. steps: (event, log2 S) where the best rose; decisions: by kind; events: how
    much of the log these are about."""

    steps: list[tuple[int, float]] = field(default_factory=list)
    decisions: dict[str, int] = field(default_factory=dict)
    events: int = 0

    @property
    def deferral_rate(self) -> float | None:
        """Share of `measure` among the decisions; None before the first."""
        total = sum(self.decisions.values())
        return self.decisions.get("measure", 0) / total if total else None

    def sampled(self, points: int) -> list[float]:
        """The best log2 S so far at `points` equal steps through the log."""
        values: list[float] = []
        at, best = 0, 0.0
        for point in range(1, points + 1):
            until = self.events * point / points
            while at < len(self.steps) and self.steps[at][0] <= until:
                best = self.steps[at][1]
                at += 1
            values.append(best)
        return values


class Curves:
    """The curves of the searches that are looked at. For one thread; a store that was not seen before starts anew."""

    def __init__(self) -> None:
        self._store: Store | None = None
        self._of: dict[str, Curve] = {}

    def look(self, store: Store, found: Sequence[Search], *, patience_s: float = 0.1) -> tuple[dict[str, Curve], bool]:
        """The curves of these searches as far as they could be read in about `patience_s`, and whether more is to come.

        A million events take part of a second the first time; nobody waits for that to see the rest of a page.
        """
        if store is not self._store:
            # The first answer about a store comes at once.
            self._store, self._of = store, {}
            return {}, bool(found)
        deadline = time.monotonic() + patience_s
        for search in found:
            curve = self._of.get(search.id)
            if curve is not None and curve.events >= search.events:
                continue
            if time.monotonic() > deadline:
                return self._known(found), True
            self._of[search.id] = _renewed(store, search, curve or Curve())
        return self._known(found), False

    def _known(self, found: Sequence[Search]) -> dict[str, Curve]:
        return {search.id: self._of[search.id] for search in found if search.id in self._of}


def _renewed(store: Store, search: Search, known: Curve) -> Curve:
    after = known.events - 1
    with store.snapshot() as db:
        length = db.execute("SELECT events FROM searches WHERE id = ?", (search.id,)).fetchone()
        rose = pages.improvements(store, search.id, after=after, best=known.steps[-1][1] if known.steps else 0.0)
        decided = pages.decided(store, search.id, after=after)
    decisions = dict(known.decisions)
    for kind, times in decided.items():
        decisions[kind] = decisions.get(kind, 0) + times
    steps = [*known.steps, *((step.ordinal, step.log2) for step in rose)]
    return Curve(steps, decisions, search.events if length is None else int(length[0]))
