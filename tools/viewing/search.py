"""One search as people watch it: its row, its curve, a page of its tree, one candidate, a page of its decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...bench.broker import processes_alive
from ...store import pages
from ...store.database import Store
from ...store.searches import SearchNode, node_of_row
from .curves import Curve, Curves
from .node import DecisionLine, NodeView, decision_line, node_view
from .searches import SearchLine, search_line
from .tree import FOLD, NodeMark, Tree, TreeAsk, TreePage


@dataclass(frozen=True)
class Decisions:
    """Decisions `first`, `first + 1`, … of `total`, newest first, each with its candidate's number."""

    total: int
    first: int
    lines: tuple[tuple[DecisionLine, int | None], ...]


@dataclass(frozen=True)
class SearchAsk:
    """What is wanted of a search. search_id None: the one that something happened in last. marked: a candidate to
    compare with; log_first, log_count: the page of the decisions, none if 0."""

    search_id: str | None
    tree: TreeAsk
    marked: str | None = None
    log_first: int = 0
    log_count: int = 0


@dataclass(frozen=True)
class SearchSnapshot:
    """The answer. best: the incumbent, where it is not the seed; node: of the line the cursor of the tree is on; more:
    the tree or its marks are not all read yet."""

    line: SearchLine
    best: SearchNode | None
    tree: TreePage
    node: NodeView | None
    mark: NodeMark
    marked: NodeView | None
    decisions: Decisions
    more: bool


class SearchReader:
    """Answers about one search after the other, remembering the tree of the last. For one thread."""

    def __init__(self, is_alive: Callable[[str], bool] = processes_alive.is_alive) -> None:
        self._curves = Curves()
        self._store: Store | None = None
        self._tree = Tree("")
        self._is_alive = is_alive

    def look(self, store: Store, ask: SearchAsk) -> SearchSnapshot | None:
        """What was asked for; None where there is no such search, or none at all."""
        if store is not self._store:
            self._store, self._tree = store, Tree("")
        search_id = ask.search_id or next(iter(pages.listed_ids(store, order="active")), None)
        found = [] if search_id is None else pages.listed(store, [search_id])
        if not found:
            return None
        search = found[0].search
        if search.id != self._tree.search_id:
            self._tree = Tree(search.id)
        was_whole = self._tree.whole
        whole = self._tree.look(store, search)
        curves, more = ({}, True) if not whole else self._curves.look(store, [search])
        if was_whole and not more:
            self._tree.read_audits(store, search)
        page = self._tree.page(store, ask.tree)
        about = self._about(page, ask.tree)
        return SearchSnapshot(
            line=search_line(found[0], curves.get(search.id), self._is_alive),
            best=self._best(store),
            tree=page,
            node=None if about is None else node_view(store, search, about),
            mark=self._mark(about),
            marked=None if ask.marked is None else node_view(store, search, ask.marked),
            decisions=self._decisions(store, search.id, ask, curves.get(search.id)),
            more=more or not was_whole,
        )

    def _best(self, store: Store) -> SearchNode | None:
        if not self._tree.best:
            return None
        row = store.read_one("SELECT * FROM nodes WHERE id = ?", (self._tree.ids[self._tree.best],))
        return None if row is None else node_of_row(row)

    def _about(self, page: TreePage, ask: TreeAsk) -> str | None:
        """The candidate under the cursor: of the line that the page was asked to find, else of the first."""
        if not page.total:
            return None
        at = page.at if page.at is not None else page.first
        key = page.lines[at - page.first].key if 0 <= at - page.first < len(page.lines) else ask.about
        return None if key is None else key.removeprefix(FOLD)

    def _mark(self, about: str | None) -> NodeMark:
        number = None if about is None else self._tree.index.get(about)
        return "proposed" if number is None else self._tree.mark(number)

    def _decisions(self, store: Store, search_id: str, ask: SearchAsk, curve: Curve | None) -> Decisions:
        if not ask.log_count:
            return Decisions(0, 0, ())
        # The curve has counted them; a hundred thousand are not counted anew for every look.
        total = pages.decision_count(store, search_id) if curve is None else sum(curve.decisions.values())
        first = max(0, min(ask.log_first, total - 1))
        found = [decision_line(one) for one in pages.decisions_page(store, search_id, first=first, count=ask.log_count)]
        return Decisions(total, first, tuple((one, self._tree.index.get(one.node_id)) for one in found))
