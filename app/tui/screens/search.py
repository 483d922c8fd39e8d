"""One search: its tree, the candidate under the cursor, its budget and its decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical

from ....store.database import Store
from ....store.searches import Search
from ....tools.viewing.node import NodeView, changes
from ....tools.viewing.search import SearchAsk, SearchReader, SearchSnapshot
from ....tools.viewing.tree import FOLD, TreeAsk
from ..canvas import Text
from ..code import code_lines, diff_lines
from ..filter import Filter
from ..lines import Line
from ..node_actions import NodeActions
from ..node_lines import about_lines, compared_lines
from ..search_parts import Head, LogTable, TreeTable, head_lines, log_row, tree_row
from ..table import NO_ROWS, Rows, Table

View = Literal["about", "source", "parent", "seed", "compare"]
_VIEWS: dict[View, str] = {
    "about": "about",
    "source": "source",
    "parent": "diff from its parent",
    "seed": "diff from the seed",
    "compare": "compared with the marked one",
}
_FOLLOW: tuple[Literal["best", "newest"] | None, ...] = (None, "best", "newest")


@dataclass(frozen=True)
class _Answer:
    snapshot: SearchSnapshot | None
    head: list[Line]
    detail: list[Line]
    about: str | None


class Detail(Text):
    """The candidate under the cursor."""

    HELP = (
        "The candidate under the tree's cursor. `v` goes through its views: about, source, diffs from its parent and "
        "from the seed, and from the one marked with `c`. The bars are its forecast; ◀ marks what was measured."
    )


class SearchPage(NodeActions):
    """The page Search."""

    HELP = "One search, live. Tab goes from tree to candidate to decisions."
    EVERY_S = 2.0
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 -- Textual declares no class variable
    VERTICAL_BREAKPOINTS = [(0, "-short"), (32, "-tall")]  # noqa: RUF012
    CSS = """
    SearchPage {
        #body { height: 1fr; }
        #left { width: 1fr; height: 1fr; }
        #tree { height: 1fr; border-top: solid $border; border-title-color: $text-muted; }
        #detail { border-top: solid $border; border-title-color: $text-muted; padding: 0 1; }
        #log { height: 9; border-top: solid $border; border-title-color: $text-muted; }
        Canvas:focus { border-title-color: $text-primary; border-title-style: bold; }
    }
    SearchPage.-narrow { #body { layout: vertical; } #detail { height: 1fr; width: 1fr; } }
    SearchPage.-wide { #body { layout: horizontal; } #left { width: 9fr; } #detail { width: 10fr; height: 1fr;
        border-left: solid $border; } }
    SearchPage.-short #log { display: none; }
    SearchPage.-log #log { display: block; }
    SearchPage.-log.-short #detail { display: none; }
    SearchPage.-narrow.-zoom { #left { display: none; } #log { display: none; } #detail { display: block; } }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "view", "View", tooltip="About, source, diffs", id="view"),
        Binding("f", "follow", "Follow", tooltip="Follow the best, the newest, or nothing", id="follow"),
        Binding("c", "mark", "Mark", tooltip="Mark it, to compare others with it", id="mark"),
        Binding("slash", "filter", "Filter", key_display="/", id="filter"),
        Binding("s", "sort", "Sort", show=False, tooltip="As proposed, or best first", id="sort"),
        Binding("L", "log", "Decisions", show=False, tooltip="Show or hide the log of decisions", id="log"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._reader = SearchReader()
        self._asked_of: str | None = None
        self._fold: dict[str, bool] = {}
        self._unpruned: frozenset[str] = frozenset()
        self._view: View = "about"
        self._follow: Literal["best", "newest"] | None = None
        self._best_first = False
        self._like = ""
        self._marked: str | None = None
        self._goto: str | None = None
        self._shown_about: tuple[str | None, View] = (None, "about")
        self._snapshot: SearchSnapshot | None = None

    def body(self) -> ComposeResult:
        yield Head(id="head")
        with Container(id="body"):
            with Vertical(id="left"):
                yield TreeTable(id="tree")
                yield Filter("#tree")
            yield Detail(id="detail")
        yield LogTable(id="log")

    def on_mount(self) -> None:
        self.query_one("#tree").focus()
        self.query_one("#log").border_title = "decisions, newest first"
        self._titles()

    # Asking and showing.

    def question(self) -> Callable[[Store], _Answer]:
        wanted = self.viewer.selected_search
        if wanted != self._asked_of:
            self._forget()
            self._asked_of = wanted
        tree, log, detail = self.query_one(TreeTable), self.query_one(LogTable), self.query_one(Detail)
        wish = tree.wish
        about, self._goto = self._goto or wish.key, None
        shape = TreeAsk(
            first=wish.first,
            count=wish.count,
            about=about,
            to=self._follow,
            opened=frozenset(key for key, folded in self._fold.items() if not folded),
            closed=frozenset(key for key, folded in self._fold.items() if folded),
            unpruned=self._unpruned,
            best_first=self._best_first,
            like=self._like or None,
        )
        ask = SearchAsk(wanted, shape, self._marked)
        if log.display:
            ask = replace(ask, log_first=log.wish.first, log_count=log.wish.count)
        view, width, wide = self._view, max(20, detail.content_size.width - 1), self.size.width - 2

        def answer(store: Store) -> _Answer:
            snapshot = self._reader.look(store, ask)
            if snapshot is None:
                return _Answer(None, [], [], None)
            node = snapshot.node
            lines = [] if node is None else _detail(snapshot, node, view, width)
            return _Answer(
                snapshot, head_lines(snapshot.line, snapshot.best, wide), lines, None if node is None else node.node.id
            )

        return answer

    def _forget(self) -> None:
        self._fold, self._unpruned, self._like, self._marked = {}, frozenset(), "", None
        self._snapshot = None
        self.query_one(Filter).close()
        tree = self.query_one(TreeTable)
        tree.lines = {}
        tree.show(NO_ROWS)

    def show(self, answer: _Answer) -> None:
        snapshot = self._snapshot = answer.snapshot
        self.query_one(Head).show(answer.head)
        tree, log, detail = self.query_one(TreeTable), self.query_one(LogTable), self.query_one(Detail)
        if snapshot is None:
            tree.lines, tree.note = {}, None
            tree.show(NO_ROWS)
            log.show(NO_ROWS)
            detail.show(())
            return
        if self._asked_of is None:
            self._asked_of = self.viewer.selected_search = snapshot.line.search.id
        page = snapshot.tree
        tree.lines = {line.key: line for line in page.lines}
        tree.note = ("The seed is not measured yet.",)
        if self._like:
            tree.note = (f"No candidate matches `{self._like}`. Esc clears the filter.",)
        tree.show(Rows(page.total, page.first, tuple(tree_row(line) for line in page.lines), page.at))
        now = (answer.about, self._view)
        detail.show(answer.detail, top=now != self._shown_about)
        self._shown_about = now
        if log.display:
            made = snapshot.decisions
            log.show(Rows(made.total, made.first, tuple(log_row(*line) for line in made.lines)))
        self._titles()
        self.offer_actions()
        if snapshot.more:
            self.ask_again()

    def _titles(self) -> None:
        tree, detail = self.query_one(TreeTable), self.query_one(Detail)
        found = self._snapshot
        count = "" if found is None else f"{found.tree.nodes:,} candidates"
        if found is not None and found.tree.more:
            count += ", reading"
        words = [
            count,
            "best first" if self._best_first else "",
            f"following the {self._follow}" if self._follow else "",
        ]
        tree.border_title = ", ".join(word for word in words if word) or "candidates"
        detail.border_title = _VIEWS[self._view]

    # What was chosen.

    def chosen_search(self) -> Search | None:
        return None if self._snapshot is None else self._snapshot.line.search

    def is_orphaned(self) -> bool:
        return self._snapshot is not None and self._snapshot.line.orphaned

    def chosen_node(self) -> NodeView | None:
        return None if self._snapshot is None else self._snapshot.node

    @on(Table.Moved, "#tree")
    @on(Table.Wanted)
    def _look_again(self) -> None:
        self.ask_again()

    @on(TreeTable.Steered)
    def _steered(self) -> None:
        if self._follow is not None:
            self._follow = None
            self._titles()

    @on(TreeTable.Folded)
    def _folded(self, event: TreeTable.Folded) -> None:
        key = event.key
        if key.startswith(FOLD):
            self._unpruned |= {key.removeprefix(FOLD)}
            self._goto = key.removeprefix(FOLD)
        else:
            line = self.query_one(TreeTable).lines.get(key)
            folded = event.folded if event.folded is not None else not (line is not None and line.folded)
            self._fold[key] = folded
            if folded:
                self._unpruned -= {key}
        self.ask_again()

    @on(Table.Chosen, "#tree")
    def _chosen(self) -> None:
        if self.has_class("-narrow"):
            self.add_class("-zoom")
        self.query_one(Detail).focus()

    @on(Table.Chosen, "#log")
    def _to_candidate(self, event: Table.Chosen) -> None:
        self._follow = None
        self._goto = (event.key or "").split(" ")[0] or None
        self.query_one(TreeTable).focus()
        self.ask_again()

    @on(Filter.Now)
    def _filtered(self, event: Filter.Now) -> None:
        self._like = event.text
        self.ask_again()

    # Keys.

    def action_view(self) -> None:
        views = [view for view in _VIEWS if view != "compare" or self._marked]
        self._view = views[(views.index(self._view) + 1) % len(views)] if self._view in views else "about"
        self._titles()
        self.ask_again()

    def action_follow(self) -> None:
        self._follow = _FOLLOW[(_FOLLOW.index(self._follow) + 1) % len(_FOLLOW)]
        self._titles()
        self.ask_again()

    def action_mark(self) -> None:
        node = self.chosen_node()
        if node is None:
            return
        if self._marked == node.node.id:
            self._marked = None
            self._view = "about" if self._view == "compare" else self._view
            self.viewer.say("No candidate is marked any more.")
        else:
            self._marked = node.node.id
            self._view = "compare"
            self.viewer.say(f"Candidate {node.node.ordinal} is marked: go to another one to compare.")
        self._titles()
        self.ask_again()

    def action_filter(self) -> None:
        self.query_one(Filter).open()

    def action_sort(self) -> None:
        self._best_first = not self._best_first
        self._titles()
        self.ask_again()

    def action_log(self) -> None:
        log = self.query_one(LogTable)
        if self.has_class("-short"):
            self.toggle_class("-log")
        else:
            log.display = not log.display
        (log if log.display else self.query_one(TreeTable)).focus()
        self.ask_again()

    def action_back(self) -> None:
        tree = self.query_one(TreeTable)
        if self.has_class("-zoom"):
            self.remove_class("-zoom")
            tree.focus()
        elif self.query_one(Filter).close() or not tree.has_focus:
            tree.focus()
        else:
            self.app.switch_mode("searches")


def _detail(snapshot: SearchSnapshot, node: NodeView, view: View, width: int) -> list[Line]:
    """The lines of the candidate in a view. Runs on the reader's thread."""
    if view == "source":
        return list(code_lines(node.kernel.source, node.kernel.language))
    if view == "about" or (view == "compare" and snapshot.marked is None):
        return about_lines(node, snapshot.mark, width)
    if view == "compare" and snapshot.marked is not None:
        return compared_lines(snapshot.marked, node)
    against = node.parent if view == "parent" else node.seed
    if against is None or against.id == node.kernel.id:
        return [(("This is the seed." if view == "seed" or against is None else "No difference.", "dim"),)]
    return list(diff_lines(changes(against, node.kernel))) or [(("No difference.", "dim"),)]
