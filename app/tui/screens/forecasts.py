"""The page Forecasts: what each forecaster said on each device beside what came, and what that is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message

from ....store.database import Store
from ....tools.viewing.record import RENEWED_S, RecordReader, Snapshot, Told
from ..canvas import Text
from ..lines import Column, Line
from ..page import Page
from ..plots import Plot
from ..record_lines import DRAWINGS, Drawing, drawn, forecaster_row, score_lines, told_row
from ..table import Rows, Table


class ForecastersTable(Table):
    """Who forecast."""

    HELP = (
        "Who forecast on which device, and how often. `in searches`: forecasts that stand in logs of searches alone, "
        "such as those of a replay's fold model."
    )
    COLUMNS = (
        Column("forecaster", 16, grow=2),
        Column("device", 12),
        Column("made", 7, right=True),
        Column("", 11, drop=1),
        Column("last", 5, right=True),
    )
    EMPTY = ("No forecast yet: kforecast forecast FILE, or an agent over kforecast mcp.",)


class ToldTable(Table):
    """Verified forecasts."""

    HELP = (
        "Forecasts that were verified: ● the 80% interval held S, × did not, ✗ the kernel was not right. off: octaves "
        "between the median and S. `s` sorts by it, Enter shows the kernel."
    )
    COLUMNS = (
        Column("", 1),
        Column("kernel", 18, grow=3),
        Column("said", 6, right=True),
        Column("80% interval", 14, drop=3),
        Column("came", 9, right=True),
        Column("off", 6, right=True),
        Column("right", 5, right=True, drop=2),
        Column("decision", 13, drop=4),
        Column("task", 12, grow=1, drop=5),
        Column("ago", 4, right=True, drop=1),
    )
    EMPTY = ("None of its forecasts was verified yet.",)


class Scores(Text):
    """The record in words."""

    HELP = (
        "direction: share told on the right side of 1. rank: Spearman's correlation of median and S. error: mean "
        "distance of the two in octaves. ECE: of P(faster). trust: what its record allows to act on without measuring."
    )


class Picture(Text):
    """A drawing. A click on a point chooses it."""

    HELP = "`v` changes the drawing. In the scatter a click chooses the nearest point; the list below goes to it."

    class Picked(Message):
        """A place in the drawing was clicked: (column, row) inside of its axes."""

        def __init__(self, column: int, row: int) -> None:
            super().__init__()
            self.column, self.row = column, row

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None:
            self.post_message(self.Picked(offset.x, offset.y))


@dataclass(frozen=True)
class _Answer:
    snapshot: Snapshot
    order: tuple[Told, ...]
    at: int | None
    scores: list[Line]
    first: list[Line]
    plot: Plot | None
    second: list[Line]


class ForecastsPage(Page):
    """The page Forecasts."""

    HELP = "How good forecasts were. Tab goes from the forecasters to the drawing to the verified forecasts."
    EVERY_S = 5.0
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 -- as Screen has it
    VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]  # noqa: RUF012 -- as Screen has it
    CSS = """
    ForecastsPage {
        #forecasters { height: 3; }
        #scores { height: 3; padding: 0 1; border-top: solid $border; border-title-color: $text-muted; }
        #drawings { height: 2fr; layout: horizontal; }
        .drawing { width: 1fr; height: 1fr; padding: 0 1; border-top: solid $border; border-title-color: $text-muted; }
        #told { height: 1fr; border-top: solid $border; border-title-color: $text-muted; }
        Canvas:focus { border-title-color: $text-primary; border-title-style: bold; }
    }
    ForecastsPage.-narrow #second { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "forecaster(-1)", "Forecaster", key_display="[", show=False, id="before"),
        Binding("right_square_bracket", "forecaster(1)", "Forecaster", key_display="[ ]", id="after"),
        Binding("v", "view", "View", tooltip="Scatter, reliability, risk against coverage, drift", id="view"),
        Binding("s", "sort", "Sort", tooltip="Newest, or farthest off first", id="sort"),
        Binding("y", "copy", "Copy id", show=False, id="copy"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._due = False
        self._reader = RecordReader()
        self._of: str | None = None
        self._drawing: Drawing = "scatter"
        self._second: Drawing = "reliability"
        self._worst = False
        self._told: dict[str, Told] = {}
        self._plot: Plot | None = None

    def body(self) -> ComposeResult:
        yield ForecastersTable(id="forecasters")
        yield Scores(id="scores")
        with Container(id="drawings"):
            yield Picture(id="first", classes="drawing")
            yield Picture(id="second", classes="drawing")
        yield ToldTable(id="told")

    def on_mount(self) -> None:
        self.query_one("#told").focus()

    # Asking and showing.

    def question(self) -> Callable[[Store], _Answer]:
        wanted, worst, chosen = self._of, self._worst, self.query_one(ToldTable).key
        first, second = self.query_one("#first", Picture), self.query_one("#second", Picture)
        drawing, beside = self._drawing, self._second if second.display else None
        sizes = [(one.content_size.width, one.content_size.height) for one in (first, second)]

        def answer(store: Store) -> _Answer:
            found = self._reader.look(store, wanted)
            if found.record is None:
                return _Answer(found, (), None, [], [], None, [])
            told = found.record.told
            order = tuple(sorted(told, key=lambda one: -one.miss)) if worst else told
            at = next((number for number, one in enumerate(order) if one.key == chosen), None)
            shown = chosen if at is not None else (order[0].key if order else None)
            lines, plot = drawn(found.record, drawing, *sizes[0], shown)
            other = [] if beside is None else drawn(found.record, beside, *sizes[1], shown)[0]
            scores = score_lines(found.record, sizes[0][0])
            return _Answer(found, order, at, scores, lines, plot if drawing == "scatter" else None, other)

        return answer

    def show(self, answer: _Answer) -> None:
        record = answer.snapshot.record
        self._of = None if record is None else record.of.key
        self._told = {one.key: one for one in answer.order}
        self._plot = answer.plot
        rows = tuple(map(forecaster_row, answer.snapshot.forecasters))
        here = next((number for number, row in enumerate(rows) if row.key == self._of), None)
        table = self.query_one(ForecastersTable)
        # No taller than it has to be.
        table.styles.height = max(2, min(len(rows) + 1, 2 if self.has_class("-short") else 7))
        table.show(Rows(len(rows), 0, rows, here))
        self.query_one(Scores).show(answer.scores)
        self.query_one("#first", Picture).show(answer.first)
        self.query_one("#second", Picture).show(answer.second)
        told = tuple(map(told_row, answer.order))
        self.query_one(ToldTable).show(Rows(len(told), 0, told, answer.at))
        self._titles()
        if answer.snapshot.stale and not self._due:
            self._due = True
            self.set_timer(RENEWED_S, self._renew)

    def _titles(self) -> None:
        self.query_one("#first").border_title = DRAWINGS[self._drawing]
        self.query_one("#second").border_title = DRAWINGS[self._second]
        self.query_one(ToldTable).border_title = (
            "verified, farthest off first" if self._worst else "verified, newest first"
        )

    @on(Table.Moved, "#forecasters")
    def _other(self, event: Table.Moved) -> None:
        if event.key is not None and event.key != self._of:
            self._of = event.key
            self.ask_again()

    @on(Table.Chosen, "#forecasters")
    def _to_told(self) -> None:
        self.query_one(ToldTable).focus()

    @on(Table.Moved, "#told")
    def _look_again(self) -> None:
        self.ask_again()

    @on(Table.Chosen, "#told")
    def _open(self, event: Table.Chosen) -> None:
        one = self._told.get(event.key or "")
        if one is not None:
            self.viewer.open_kernel(one.kernel_id)

    @on(Picture.Picked)
    def _picked(self, event: Picture.Picked) -> None:
        """Go to the forecast whose point is nearest to the click."""
        plot, table = self._plot, self.query_one(ToldTable)
        if plot is None or not self._told:
            return
        low = plot.up.low

        def distance(one: Told) -> float:
            column, row = plot.cell(one.forecast, low if one.measured is None else one.measured)
            return float((plot.left + column - event.column) ** 2 + 4 * (plot.above + row - event.row) ** 2)

        nearest = min(self._told.values(), key=distance)
        table.cursor = next(number for number, row in enumerate(table.rows.rows) if row.key == nearest.key)
        table.focus()

    def _renew(self) -> None:
        self._due = False
        self.ask_again()

    # Keys.

    def action_forecaster(self, by: int) -> None:
        table = self.query_one(ForecastersTable)
        table.cursor = max(0, min(table.rows.total - 1, table.cursor + by))

    def action_view(self) -> None:
        names = list(DRAWINGS)
        if self.query_one("#second").display:
            others = [name for name in names if name != self._drawing]
            self._second = others[(others.index(self._second) + 1) % len(others)]
        else:
            self._drawing = names[(names.index(self._drawing) + 1) % len(names)]
        self.ask_again()

    def action_sort(self) -> None:
        self._worst = not self._worst
        self.ask_again()

    def action_copy(self) -> None:
        one = self._told.get(self.query_one(ToldTable).key or "")
        self.viewer.copy(None if one is None else one.kernel_id)

    def action_back(self) -> None:
        table = self.query_one(ToldTable)
        if not table.has_focus:
            table.focus()
        else:
            self.app.switch_mode("searches")
