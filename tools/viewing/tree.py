"""A search's tree as people watch it: its shape in memory, its words only of what is seen.

A hundred thousand candidates are a few numbers each. They are read once, page by page, and from then on only what has
changed; size, number alive and best of every subtree are kept up to date, so a folded branch can say what is in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from ...store import pages
from ...store.database import Store
from ...store.searches import Search

FIRST_PAGE = 2_000
"""Candidates that the first frame waits for."""
PAGE = 20_000
"""Candidates read at once from then on."""
_TAIL = 3000
"""Events that the first look goes back to find the work in flight."""
_OPEN_DEPTH = 3
"""Nodes above this depth are unfolded at first, and the way to the best."""

NodeMark = Literal["seed", "proposed", "queued", "measuring", "measured", "best", "failed", "dropped", "audited"]
PRUNED = ("dropped", "failed")
FOLD = "fold:"
"""Key of the line that stands for the pruned children of a node: `fold:` and the node's id."""


@dataclass(frozen=True)
class TreeLine:
    """A line of the tree: a candidate, or what stands for folded ones. guides: one letter a level: `|` where a line
    goes on, ` ` where none does, and last `+` or `L` for the line's own branch.

    log2: measured S against the seed, with its interval where one is known; forecast: the forecast S, the same way.
    inside: candidates below a folded one; best_inside: their best. pruned: what a fold line stands for.
    """

    key: str
    ordinal: int
    guides: str
    mark: NodeMark
    idea: str
    log2: float | None
    forecast: float | None
    verdict: str | None
    folded: bool | None
    """None: it has nothing below it."""
    inside: int = 0
    best_inside: float | None = None
    pruned: tuple[int, int] | None = None
    """(dropped, failed) of a fold line."""


@dataclass(frozen=True)
class TreePage:
    """Lines `first`, `first + 1`, … of `total`. at: the line of the node asked about; more: not all is read yet."""

    total: int
    first: int
    lines: tuple[TreeLine, ...]
    at: int | None
    nodes: int
    more: bool = False


@dataclass(frozen=True)
class TreeAsk:
    """What is wanted of a tree. opened, closed: ids of nodes folded and unfolded by hand; unpruned: ids whose pruned
    children are shown. about: the id to find; to: find the best or the newest instead."""

    first: int
    count: int
    about: str | None = None
    to: Literal["best", "newest"] | None = None
    opened: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()
    unpruned: frozenset[str] = frozenset()
    best_first: bool = False
    like: str | None = None


@dataclass
class Tree:
    """The tree of one search. For one thread."""

    search_id: str
    ids: list[str] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=dict)
    parent: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    log2: list[float | None] = field(default_factory=list)
    forecast: list[float | None] = field(default_factory=list)
    verdict: list[str | None] = field(default_factory=list)
    children: dict[int, list[int]] = field(default_factory=dict)
    size: list[int] = field(default_factory=list)
    """Nodes below."""
    alive: list[int] = field(default_factory=list)
    """Nodes below and itself that are not pruned."""
    top: list[float | None] = field(default_factory=list)
    """The best log2 S below and itself."""
    measuring: set[str] = field(default_factory=set)
    audited: set[str] = field(default_factory=set)
    best: int | None = None
    newest: int = 0
    whole: bool = False
    _seq: int = -1
    _events: int = -1
    _audits: int = -1
    _shape: tuple[object, ...] | None = None
    _flat: list[tuple[int, bool, str]] = field(default_factory=list)
    _path: set[int] = field(default_factory=set)

    # Reading.

    def look(self, store: Store, search: Search) -> bool:
        """Take in what is new; whether all was read."""
        if self._seq < 0:
            self._seq = pages.last_seq(store, "nodes")
        if not self.whole:
            count = PAGE if self.ids else FIRST_PAGE
            found = pages.twigs(store, self.search_id, first=len(self.ids), count=count)
            self._take(found)
            self.whole = len(found) < count
            if not self.whole:
                return False
        changed = pages.changed_twigs(store, self.search_id, after_seq=self._seq)
        if changed:
            # Not in the order of changes: a candidate that has changed again stands behind its juniors there.
            self._take(sorted(changed, key=lambda twig: twig.ordinal))
            self._seq = changed[-1].seq
        self._read_flight(store)
        self.best = None if search.best_id is None else self._node_of(store, search.best_id)
        return True

    def read_audits(self, store: Store, search: Search) -> None:
        """Which candidates an audit was drawn for: of a large search it takes a moment, so it is read when there is
        time."""
        if self._audits < search.events:
            found = pages.audited(store, self.search_id, after=self._audits)
            self.audited.update(found)
            self._audits = search.events - 1

    def _node_of(self, store: Store, kernel_id: str) -> int | None:
        row = store.read_one(
            "SELECT ordinal FROM nodes WHERE kernel_id = ? AND search_id = ? ORDER BY ordinal LIMIT 1",
            (kernel_id, self.search_id),
        )
        return None if row is None or row["ordinal"] >= len(self.ids) else int(row["ordinal"])

    def _read_flight(self, store: Store) -> None:
        for event in pages.tail(store, self.search_id, after=self._events, limit=_TAIL):
            self._events = event.ordinal
            if event.node_id is None:
                continue
            if event.kind == "began" and '"work":"measure"' in event.json.replace(" ", ""):
                self.measuring.add(event.node_id)
            elif event.kind in ("measured", "lost"):
                self.measuring.discard(event.node_id)
            elif event.kind == "finished":
                self.measuring.clear()

    def _take(self, found: Iterable[pages.Twig]) -> None:
        fresh: list[int] = []
        for twig in found:
            number = self.index.get(twig.id)
            if number is None:
                if twig.ordinal != len(self.ids):
                    continue  # its elders are on a page that was not read yet; it is on one, too
                number = self._add(twig)
                fresh.append(number)
            else:
                self._change(number, twig)
        self._count(fresh)
        if fresh:
            self.newest = fresh[-1]
        self._shape = None

    def _add(self, twig: pages.Twig) -> int:
        number = len(self.ids)
        above = -1 if twig.parent_id is None else self.index[twig.parent_id]
        self.ids.append(twig.id)
        self.index[twig.id] = number
        self.parent.append(above)
        self.depth.append(0 if above < 0 else self.depth[above] + 1)
        self.state.append(twig.state)
        self.log2.append(twig.log2)
        self.forecast.append(twig.forecast)
        self.verdict.append(twig.verdict)
        self.size.append(0)
        self.alive.append(0)
        self.top.append(None)
        if above >= 0:
            self.children.setdefault(above, []).append(number)
        return number

    def _count(self, fresh: list[int]) -> None:
        """Sums of what was added: each is its elders' only once all of its own juniors are in it."""
        if len(fresh) > 1000:
            self._sum_all()
            return
        for number in fresh:
            self._own(number)
            self._raise(self.parent[number], 1, self.alive[number], self.top[number])

    def _own(self, number: int) -> None:
        self.alive[number] = int(self.state[number] not in PRUNED)
        self.top[number] = self.log2[number]

    def _sum_all(self) -> None:
        for number in range(len(self.ids)):
            self.size[number] = 0
            self._own(number)
        for number in range(len(self.ids) - 1, 0, -1):  # the juniors of a node all have higher numbers
            above = self.parent[number]
            self.size[above] += self.size[number] + 1
            self.alive[above] += self.alive[number]
            self.top[above] = _higher(self.top[above], self.top[number])

    def _raise(self, number: int, size: int, alive: int, top: float | None) -> None:
        while number >= 0:
            self.size[number] += size
            self.alive[number] += alive
            self.top[number] = _higher(self.top[number], top)
            number = self.parent[number]

    def _change(self, number: int, twig: pages.Twig) -> None:
        was_alive, was = self.state[number] not in PRUNED, self.log2[number]
        self.state[number], self.log2[number] = twig.state, twig.log2
        self.forecast[number], self.verdict[number] = twig.forecast, twig.verdict
        gained = int(twig.state not in PRUNED) - int(was_alive)
        if was is not None and (twig.log2 is None or twig.log2 < was):
            self._raise(number, 0, gained, None)
            self._lower(number)
        else:
            self._raise(number, 0, gained, twig.log2)

    def _lower(self, number: int) -> None:
        while number >= 0:
            top = self.log2[number]
            for child in self.children.get(number, ()):
                top = _higher(top, self.top[child])
            self.top[number] = top
            number = self.parent[number]

    # Showing.

    def page(self, store: Store, ask: TreeAsk) -> TreePage:
        """The lines asked for."""
        self._flatten(store, ask)
        wanted = self.best if ask.to == "best" else self.newest if ask.to == "newest" else None
        about = self.ids[wanted] if wanted is not None and wanted < len(self.ids) else ask.about
        at = self._line_of(about)
        first = ask.first
        if at is not None and not first <= at < first + ask.count:
            first = max(0, at - ask.count // 2)
        first = max(0, min(first, len(self._flat) - 1))
        seen = self._flat[first : first + ask.count]
        words = pages.ideas(store, [self.ids[number] for number, fold, _ in seen if not fold])
        lines = tuple(self._line(number, fold, guides, words, ask) for number, fold, guides in seen)
        return TreePage(len(self._flat), first, lines, at, len(self.ids), not self.whole)

    def _line_of(self, key: str | None) -> int | None:
        if key is None:
            return None
        fold = key.startswith(FOLD)
        number = self.index.get(key.removeprefix(FOLD))
        while number is not None and number >= 0:
            for at, (other, folded, _) in enumerate(self._flat):
                if other == number and folded == fold:
                    return at
            number, fold = (number, False) if fold else (self.parent[number], False)
        return None

    def _is_open(self, number: int, ask: TreeAsk, path: set[int]) -> bool:
        id_ = self.ids[number]
        if id_ in ask.closed:
            return False
        return id_ in ask.opened or number in path or self.depth[number] < _OPEN_DEPTH

    def _flatten(self, store: Store, ask: TreeAsk) -> None:
        followed = self.newest if ask.to == "newest" else None
        lead = self._path_to(self.best) | self._path_to(followed)
        # What is looked at stays where it is when the best moves elsewhere.
        stay = frozenset(
            number
            for number in self._path_to(self._number(ask.about))
            if number >= 0 and not self._is_open(number, ask, lead)
        )
        shape = (
            ask.opened,
            ask.closed,
            ask.unpruned,
            ask.best_first,
            ask.like,
            self.best,
            followed,
            stay,
            len(self.ids),
        )
        if shape == self._shape:
            return
        self._shape = shape
        self._flat = []
        if not self.ids:
            return
        if ask.like:
            self._flat = [(number, False, "") for number in self._matching(store, ask.like)]
            return
        path = self._path = lead | stay
        keep = {one for one in (self.best, followed) if one is not None}
        stack: list[tuple[int, bool, str]] = [(0, False, "")]
        while stack:
            number, fold, guides = stack.pop()
            self._flat.append((number, fold, guides))
            if fold or number not in self.children or not self._is_open(number, ask, path):
                continue
            below = guides.replace("+", "|").replace("L", " ")
            shown, pruned = self._split(number, ask, keep)
            lines: list[tuple[int, bool]] = [(child, False) for child in shown]
            if pruned:
                lines.append((number, True))
            for place, (child, folded) in reversed(list(enumerate(lines))):
                stack.append((child, folded, below + ("L" if place == len(lines) - 1 else "+")))

    def _split(self, number: int, ask: TreeAsk, keep: set[int]) -> tuple[list[int], int]:
        """A node's children to be shown, in order, and how many are folded into one line."""
        children = self.children[number]
        if self.ids[number] in ask.unpruned:
            shown, pruned = list(children), 0
        else:
            shown = [child for child in children if self.alive[child] or child in keep]
            pruned = len(children) - len(shown)
            if pruned == 1:  # a line for one is no shorter than the one
                shown, pruned = list(children), 0
        if ask.best_first:
            shown.sort(key=self._rank)
        return shown, pruned

    def _rank(self, number: int) -> tuple[bool, float, int]:
        value = self.top[number]
        return value is None, -(value or 0.0), number

    def _number(self, key: str | None) -> int | None:
        return None if key is None else self.index.get(key.removeprefix(FOLD))

    def _path_to(self, number: int | None) -> set[int]:
        path: set[int] = set()
        while number is not None and number >= 0:
            number = self.parent[number]
            path.add(number)
        return path

    def _matching(self, store: Store, like: str) -> list[int]:
        found = pages.nodes_like(store, self.search_id, like, limit=2000)
        return [number for number in found if number < len(self.ids)]

    def _line(self, number: int, fold: bool, guides: str, words: dict[str, str], ask: TreeAsk) -> TreeLine:
        id_ = self.ids[number]
        if fold:
            hidden = [child for child in self.children[number] if not self.alive[child]]
            dropped = sum(self.state[child] == "dropped" for child in hidden)
            return TreeLine(
                FOLD + id_,
                number,
                guides,
                "dropped",
                "",
                None,
                None,
                None,
                True,
                pruned=(dropped, len(hidden) - dropped),
            )
        below = number in self.children
        folded = None if not below or ask.like else not self._is_open(number, ask, self._path)
        return TreeLine(
            key=id_,
            ordinal=number,
            guides=guides,
            mark=self.mark(number),
            idea=words.get(id_, ""),
            log2=self.log2[number],
            forecast=self.forecast[number],
            verdict=self.verdict[number],
            folded=folded,
            inside=self.size[number] if folded else 0,
            best_inside=self.top[number] if folded else None,
        )

    def mark(self, number: int) -> NodeMark:
        """What a candidate is, in one word."""
        id_, state = self.ids[number], self.state[number]
        if number == self.best:
            return "best"
        if id_ in self.measuring:
            return "measuring"
        if state == "failed":
            return "failed"
        if id_ in self.audited:
            return "audited"
        if number == 0:
            return "seed"
        words: dict[str, NodeMark] = {"ready": "queued", "measured": "measured", "dropped": "dropped"}
        return words.get(state, "proposed")


def _higher(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else max(one, other)
