"""Home: every search with how it is doing, and under it what agents forecast and measure one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from ....store.database import Store
from ....store.searches import Search
from ....tools.viewing.curves import Curves
from ....tools.viewing.feed import Feed, FeedEntry
from ....tools.viewing.searches import ORDERS, SearchLine, SearchList, searches_page
from ....tools.words import time_text
from .. import figures
from ..filter import Filter
from ..lines import Cell, Column
from ..search_actions import SearchActions
from ..table import Row, Rows, Table

_SPARK = 14
_GAUGE = 6


class SearchesTable(Table):
    """The list of searches."""

    HELP = (
        "All searches. S best: of the best measured kernel against the seed. Spent: of the limit that is nearest to "
        "its end. Deferred: share of the decisions that sent a candidate to the device, its forecast not being enough."
    )
    COLUMNS = (
        Column("state", 11),
        Column("task", 12, grow=3),
        Column("S best", 6, right=True),
        Column("how it rose", _SPARK),
        Column("spent", _GAUGE + 10),
        Column("deferred", 8, right=True),
        Column("forecaster", 12, grow=1, drop=3),
        Column("by", 14, drop=2),
        Column("device", 8, grow=1, drop=4),
        Column("begun", 5, right=True, drop=1),
        Column("id", 10, drop=5),
    )
    EMPTY = (
        "No search yet. Begin one in another terminal:",
        "",
        "kforecast search run FILE --budget 50m,5min",
    )


class FeedTable(Table):
    """The feed."""

    HELP = (
        "What happens one by one, newest first: `~` is a forecast, `=` a measurement. Enter shows the whole of it in "
        "the page Kernels; `o` also lists what searches forecast and measure."
    )
    COLUMNS = (
        Column("", 1),
        Column("ago", 4, right=True),
        Column("kernel", 18, grow=3),
        Column("S", 6, right=True),
        Column("interval", 14, drop=2),
        Column("outcome", 12),
        Column("time", 8, right=True, drop=3),
        Column("task", 13, grow=1, drop=4),
        Column("by", 14, grow=1),
        Column("device", 7, drop=5),
    )
    EMPTY = (
        "No forecast or measurement yet. Agents make them over `kforecast mcp`,",
        "people with `kforecast measure FILE`.",
    )


@dataclass(frozen=True)
class _Answer:
    searches: SearchList
    feed: tuple[FeedEntry, ...]


class SearchesPage(SearchActions):
    """The page Searches."""

    HELP = "Home. Tab goes from the searches to the feed and back."
    EVERY_S = 2.0
    CSS = """
    #searches { height: 3fr; }
    #feed { height: 2fr; border-top: solid $border; border-title-color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/", id="filter"),
        Binding("s", "sort", "Sort", tooltip="Newest, lately active, best, state or task first", id="sort"),
        Binding("y", "copy", "Copy id", show=False, id="copy"),
        Binding("o", "scope", "Feed: all/one-off", show=False, tooltip="Whether searches are in the feed", id="scope"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._curves, self._feed = Curves(), Feed()
        self._order, self._like, self._all = 0, "", False
        self._lines: dict[str, SearchLine] = {}
        self._entries: dict[str, FeedEntry] = {}

    def body(self) -> ComposeResult:
        yield SearchesTable(id="searches")
        yield Filter("#searches")
        yield FeedTable(id="feed")

    def on_mount(self) -> None:
        self.query_one("#searches").focus()
        self._title()

    def _title(self) -> None:
        self.query_one("#feed").border_title = "everything, newest first" if self._all else "one by one, newest first"

    def question(self) -> Callable[[Store], _Answer]:
        wish = self.query_one(SearchesTable).wish
        order, like, everything = ORDERS[self._order], self._like, self._all

        def ask(store: Store) -> _Answer:
            found = searches_page(
                store, self._curves, first=wish.first, count=wish.count, order=order, like=like, about=wish.key
            )
            return _Answer(found, self._feed.look(store, searches_too=everything))

        return ask

    def show(self, answer: _Answer) -> None:
        found = answer.searches
        self._lines = {line.search.id: line for line in found.lines}
        self.viewer.known_searches = {
            line.search.id: f"{line.search.task_name} on {line.search.device}, {line.search.state}"
            for line in found.lines
        }
        table = self.query_one(SearchesTable)
        table.note = (f"No search matches `{self._like}`. Esc clears the filter.",) if self._like else None
        rows = tuple(Row(line.search.id, _search_cells(line)) for line in found.lines)
        table.show(Rows(found.total, found.first, rows, found.at))
        self._entries = {entry.id: entry for entry in answer.feed}
        self.query_one(FeedTable).show(
            Rows(len(answer.feed), 0, tuple(Row(entry.id, _feed_cells(entry)) for entry in answer.feed))
        )
        self.offer_actions()
        if found.more:
            self.ask_again()

    def chosen_search(self) -> Search | None:
        line = self._lines.get(self.query_one(SearchesTable).key or "")
        return None if line is None else line.search

    def is_orphaned(self) -> bool:
        line = self._lines.get(self.query_one(SearchesTable).key or "")
        return line is not None and line.orphaned

    @on(Table.Wanted)
    def _wanted(self) -> None:
        self.ask_again()

    @on(Table.Moved, "#searches")
    def _moved(self) -> None:
        self.offer_actions()

    @on(Table.Chosen, "#feed")
    def _open_kernel(self, event: Table.Chosen) -> None:
        entry = self._entries.get(event.key or "")
        self.viewer.open_kernel(None if entry is None else entry.kernel_id)

    @on(Table.Chosen, "#searches")
    def _open(self, event: Table.Chosen) -> None:
        self.viewer.open_search(event.key)

    @on(Filter.Now)
    def _filtered(self, event: Filter.Now) -> None:
        self._like = event.text
        self.ask_again()

    def action_filter(self) -> None:
        self.query_one(Filter).open()

    def action_sort(self) -> None:
        self._order = (self._order + 1) % len(ORDERS)
        self.viewer.say(f"Sorted by {ORDERS[self._order]}.")
        self.ask_again()

    def action_scope(self) -> None:
        self._all = not self._all
        self._title()
        self.ask_again()

    def action_copy(self) -> None:
        table = self.query_one(FeedTable) if self.query_one(FeedTable).has_focus else self.query_one(SearchesTable)
        self.viewer.copy(table.key)

    def action_back(self) -> None:
        if not self.query_one(Filter).close():
            self.query_one(SearchesTable).focus()


def _search_cells(line: SearchLine) -> tuple[Cell, ...]:
    search, curve = line.search, line.curve
    near = figures.tightest(search.spent, search.limits)
    spent: Cell = "-"
    if near is not None:
        name, share = near
        part = f" {min(999, 100 * share):3.0f}% "
        spent = (*figures.gauge(share, _GAUGE), (part, ""), (figures.LIMITS[name][0], "dim"))
    rose: Cell = ("", "")
    if curve is not None:
        rose = (figures.sparkline(curve.sampled(_SPARK)), "good" if curve.steps else "faint")
    return (
        figures.state_line(search.state, orphaned=line.orphaned),
        search.task_name,
        figures.ratio_span(search.best_log2) if search.best_log2 else ("-", "faint"),
        rose,
        spent,
        figures.percent(None if curve is None else curve.deferral_rate),
        (search.forecaster, ""),
        (figures.who(line.worker) if line.worker else ("an agent" if search.generator == "agent" else "-"), "dim"),
        (search.device, "dim"),
        (figures.ago(search.created_at), "dim"),
        (figures.short(search.id), "dim"),
    )


def _feed_cells(entry: FeedEntry) -> tuple[Cell, ...]:
    forecast = entry.kind == "forecast"
    s: Cell = (
        (figures.ratio(entry.log2), "forecast") if forecast else figures.ratio_span(entry.log2, entry.low, entry.high)
    )
    outcome: Cell = entry.outcome
    if entry.quarantined:
        outcome = ("quarantined", "warn")
    elif not forecast:
        bad = ("slower", "incorrect", "crashed", "timeout", "tampered", "impossible", "compile_error", "launch_error")
        role = "good" if entry.outcome == "faster" else "bad" if entry.outcome in bad else ""
        outcome = (entry.outcome, role)
    elif entry.p_correct is not None:
        outcome = f"{entry.outcome} {figures.percent(entry.p_correct)}"
    by = f"search {figures.short(entry.search)}" if entry.search else figures.who(entry.who)
    return (
        ("~", "forecast") if forecast else ("=", "strong"),
        (figures.ago(entry.created_at), "dim"),
        entry.kernel,
        s,
        (figures.interval(entry.low, entry.high), "dim"),
        outcome,
        "" if forecast else time_text(entry.time_us),
        (entry.task, "dim"),
        (by, "dim"),
        (entry.device, "dim"),
    )
