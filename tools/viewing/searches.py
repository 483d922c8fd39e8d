"""The list of searches as people watch it: state, best and how it rose, spend and budget, deferrals, who runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from ...bench.broker import processes_alive
from ...store import pages
from ...store.database import Store
from ...store.searches import ENDED, Search
from .curves import Curve, Curves

STALE_S = 60.0
"""As `tools.search.process` has it (a test compares them), without importing all that works on searches."""
ORDERS: tuple[str, ...] = tuple(pages.ORDERS)


@dataclass(frozen=True)
class SearchLine:
    """One search in the list. worker: who works on it now, or None; orphaned: it should be worked on, and is not."""

    search: Search
    worker: str | None
    orphaned: bool
    curve: Curve | None


@dataclass(frozen=True)
class SearchList:
    """The searches `first`, `first + 1`, … of `total` in the order asked for. at: the number of the search that was
    asked about; more: curves are missing yet, ask again."""

    total: int
    first: int
    lines: tuple[SearchLine, ...]
    at: int | None
    working: int
    more: bool = False


def searches_page(
    store: Store,
    curves: Curves,
    *,
    first: int,
    count: int,
    order: str = "newest",
    like: str | None = None,
    about: str | None = None,
    is_alive: Callable[[str], bool] = processes_alive.is_alive,
) -> SearchList:
    """A page of the searches. like: only those that have this text somewhere; about: an id to be found in the order."""
    ids = pages.listed_ids(store, order=order, like=like)
    at = ids.index(about) if about in ids else None
    # Around the search that was asked about, wherever it has moved to meanwhile.
    if at is not None and not first <= at < first + count:
        first = max(0, at - count // 2)
    first = max(0, min(first, len(ids) - 1))
    found = pages.listed(store, ids[first : first + count])
    known, more = curves.look(store, [one.search for one in found])
    lines = tuple(search_line(one, known.get(one.search.id), is_alive) for one in found)
    row = store.read_one("SELECT count(*) AS working FROM searches WHERE state IN ('working', 'stopping')")
    return SearchList(len(ids), first, lines, at, 0 if row is None else row["working"], more)


def search_line(one: pages.Listed, curve: Curve | None, is_alive: Callable[[str], bool]) -> SearchLine:
    """A search with who works on it now."""
    worked_on = one.owner is not None and one.beat is not None and _is_fresh(one.beat) and is_alive(one.owner)
    orphaned = one.search.state in ("working", "stopping") and not worked_on
    return SearchLine(one.search, one.owner if worked_on else None, orphaned, curve)


def _is_fresh(beat: str) -> bool:
    return (datetime.now(UTC) - datetime.fromisoformat(beat)).total_seconds() < STALE_S


def is_over(search: Search) -> bool:
    """Whether a search rests for good, unless somebody resumes it."""
    return search.state in ENDED
