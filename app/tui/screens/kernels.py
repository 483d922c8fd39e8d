"""The page Kernels: boards by task and device, places with ties, labels, quarantine, and every reading of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical

from ....store.database import Store
from ....tools.viewing.leaderboard import RENEWED_S, KernelsAsk, KernelsReader, Snapshot
from ..canvas import Text
from ..code import code_lines
from ..dialogs import Confirm, Prompt
from ..filter import Filter
from ..kernel_lines import board_row, kernel_lines, standing_row
from ..lines import Column, Line
from ..page import Page
from ..table import Rows, Table

View = Literal["about", "source"]


class BoardsTable(Table):
    """What there are boards of."""

    HELP = "One board for each task, device and launch mode: times compare inside of one only. Newest first."
    COLUMNS = (
        Column("task", 14, grow=2),
        Column("device", 12),
        Column("mode", 8, drop=1),
        Column("kernels", 7, right=True),
        Column("last", 5, right=True),
    )
    EMPTY = ("Nothing was measured yet: kforecast measure FILE",)


class StandingsTable(Table):
    """The kernels of a board."""

    HELP = (
        "Fastest first, by the newest believed reading. `=2`: it cannot be told from the first of that place, their "
        "intervals overlap. ±: half of the time's interval. S: against what it was last compared with. `a` also shows "
        "what is not right or in quarantine."
    )
    COLUMNS = (
        Column("place", 5, right=True),
        Column("kernel", 16, grow=3),
        Column("time", 8, right=True),
        Column("±", 7, right=True, drop=2),
        Column("S", 6, right=True),
        Column("outcome", 12),
        Column("floor", 5, right=True, drop=3),
        Column("effort", 6, drop=7),
        Column("labels", 10, grow=1, drop=5),
        Column("read", 4, right=True, drop=6),
        Column("lang", 6, drop=9),
        Column("ago", 4, right=True, drop=4),
        Column("id", 10, drop=8),
    )
    EMPTY = ("No kernel of this board is right yet. `a` shows the others.",)


@dataclass(frozen=True)
class _Answer:
    snapshot: Snapshot
    detail: list[Line]
    about: str | None


class KernelDetail(Text):
    """The kernel under the cursor."""

    HELP = "What was measured of the kernel, every reading of it here, and with `v` its source."


class KernelsPage(Page):
    """The page Kernels."""

    HELP = "The fastest kernels. Tab goes from the boards to the kernels to what is known of one."
    EVERY_S = 5.0
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 -- as Screen has it
    CSS = """
    KernelsPage {
        #boards { height: 5; }
        #body { height: 1fr; }
        #left { width: 1fr; height: 1fr; }
        #standings { height: 1fr; border-top: solid $border; border-title-color: $text-muted; }
        #detail { border-top: solid $border; border-title-color: $text-muted; padding: 0 1; }
        Canvas:focus { border-title-color: $text-primary; border-title-style: bold; }
    }
    KernelsPage.-narrow { #body { layout: vertical; } #detail { height: 8; width: 1fr; } }
    KernelsPage.-wide { #body { layout: horizontal; } #left { width: 10fr; }
        #detail { width: 9fr; height: 1fr; border-left: solid $border; } }
    KernelsPage.-zoom { #left { display: none; } #boards { display: none; } #detail { height: 1fr; } }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "board(-1)", "Board", key_display="[", show=False, id="board-before"),
        Binding("right_square_bracket", "board(1)", "Board", key_display="[ ]", id="board-after"),
        Binding("a", "others", "All/right", tooltip="Also what is not right or not believed", id="others"),
        Binding("m", "measure", "Measure", show=False, tooltip="Measure it again, against the same", id="measure"),
        Binding("v", "view", "View", tooltip="About, source", id="view"),
        Binding("slash", "filter", "Filter", key_display="/", id="filter"),
        Binding(
            "exclamation_mark",
            "quarantine",
            "Quarantine",
            show=False,
            key_display="!",
            tooltip="Put the reading into quarantine, or clear it",
            id="quarantine",
        ),
        Binding("y", "copy", "Copy id", show=False, id="copy"),
        Binding("Y", "copy_source", "Copy source", show=False, id="copy-source"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._due = False
        self._reader = KernelsReader()
        self._board: str | None = None
        self._others, self._like = False, ""
        self._view: View = "about"
        self._snapshot: Snapshot | None = None
        self._shown: tuple[str | None, View] = (None, "about")

    def body(self) -> ComposeResult:
        yield BoardsTable(id="boards")
        with Container(id="body"):
            with Vertical(id="left"):
                yield StandingsTable(id="standings")
                yield Filter("#standings")
            yield KernelDetail(id="detail")

    def on_mount(self) -> None:
        self.query_one("#standings").focus()

    # Asking and showing.

    def question(self) -> Callable[[Store], _Answer]:
        table, detail = self.query_one(StandingsTable), self.query_one(KernelDetail)
        wish, view, width = table.wish, self._view, max(20, detail.content_size.width - 1)
        kernel, self.viewer.selected_kernel = self.viewer.selected_kernel, None
        if kernel is not None:
            self._like = ""
        ask = KernelsAsk(
            board=self._board,
            first=wish.first,
            count=wish.count,
            about=wish.key,
            kernel=kernel,
            others=self._others,
            like=self._like,
        )

        def answer(store: Store) -> _Answer:
            found = self._reader.look(store, ask)
            lines: list[Line] = []
            if found.kernel is not None:
                about = kernel_lines(found, width)
                lines = about if view == "about" else list(code_lines(found.kernel.source, found.kernel.language))
            return _Answer(found, lines, None if found.kernel is None else found.kernel.id)

        return answer

    def show(self, answer: _Answer) -> None:
        found = self._snapshot = answer.snapshot
        boards, table, detail = (
            self.query_one(BoardsTable),
            self.query_one(StandingsTable),
            self.query_one(KernelDetail),
        )
        here = next((number for number, one in enumerate(found.boards) if one == found.board), None)
        self._board = None if found.board is None else found.board.key
        # No taller than it has to be.
        boards.styles.height = max(2, min(len(found.boards) + 1, 8 if self.has_class("-wide") else 5))
        boards.show(Rows(len(found.boards), 0, tuple(map(board_row, found.boards)), here))
        table.note = (f"No kernel matches `{self._like}`. Esc clears the filter.",) if self._like else None
        table.show(Rows(found.total, found.first, tuple(map(standing_row, found.standings)), found.at))
        now = (answer.about, self._view)
        detail.show(answer.detail, top=now != self._shown)
        self._shown = now
        detail.border_title = self._view
        where = "" if found.board is None else f"{found.board.task} on {found.board.device}, {found.board.launch_mode}"
        if found.stale and not self._due:
            self._due = True
            self.set_timer(RENEWED_S, self._renew)
        table.border_title = where + (", with those that are not right" if self._others and where else "")

    @on(Table.Moved, "#standings")
    @on(Table.Wanted)
    def _look_again(self) -> None:
        self.ask_again()

    @on(Table.Moved, "#boards")
    def _other_board(self, event: Table.Moved) -> None:
        if event.key is not None and event.key != self._board:
            self._board = event.key
            self.ask_again()

    @on(Table.Chosen, "#boards")
    def _to_standings(self) -> None:
        self.query_one(StandingsTable).focus()

    @on(Table.Chosen, "#standings")
    def _to_detail(self) -> None:
        if self.has_class("-narrow"):
            self.add_class("-zoom")
        self.query_one(KernelDetail).focus()

    @on(Filter.Now)
    def _filtered(self, event: Filter.Now) -> None:
        self._like = event.text
        self.ask_again()

    def _renew(self) -> None:
        self._due = False
        self.ask_again()

    # Keys.

    def action_board(self, by: int) -> None:
        boards = self.query_one(BoardsTable)
        boards.cursor = max(0, min(boards.rows.total - 1, boards.cursor + by))

    def action_others(self) -> None:
        self._others = not self._others
        self.ask_again()

    def action_view(self) -> None:
        self._view = "source" if self._view == "about" else "about"
        self.ask_again()

    def action_filter(self) -> None:
        self.query_one(Filter).open()

    def action_copy(self) -> None:
        found = self._snapshot
        self.viewer.copy(None if found is None or found.kernel is None else found.kernel.id)

    def action_copy_source(self) -> None:
        found = self._snapshot
        if found is not None and found.kernel is not None:
            from ....tools.search.best import best_as_file

            self.viewer.copy(best_as_file(found.kernel))

    def action_measure(self) -> None:
        """Ask for another reading, against what it was compared with last; it shows up here."""
        found = self._snapshot
        if found is None or found.kernel is None or found.board is None or not found.history:
            return
        kernel, device, baseline = found.kernel.id, found.board.device, found.history[0].baseline_id or "none"

        def measure_it(store: Store) -> str:
            from ....bench.broker import processes_alive
            from ....tools.measure import measure

            asked_by = processes_alive.owner_name("tui")
            return measure(kernel, baseline=baseline, device=device, wait_s=0.0, client=asked_by, store=store).summary

        self.viewer.change("Not measured", measure_it, lambda summary: summary)

    def action_quarantine(self) -> None:
        """Put the newest reading into quarantine with a reason, or clear it."""
        found = self._snapshot
        key = self.query_one(StandingsTable).key
        reading = None if found is None else next((one for one in found.history if one.id == key), None)
        if reading is None:
            return
        path = self.viewer.watch_store.path

        def clear(yes: bool | None) -> None:
            from ....tools import quarantine

            if yes:
                self.act(
                    "Not cleared", lambda: quarantine.clear(reading.id, path), lambda line: f"{line.name} is believed."
                )

        def put(reason: str | None) -> None:
            from ....tools import quarantine

            if reason:
                self.act(
                    "Not put into quarantine",
                    lambda: quarantine.put(reading.id, reason, path),
                    lambda line: f"{line.name} is in quarantine.",
                )

        if reading.quarantine is not None:
            self.app.push_screen(Confirm(f"Believe it from now on? It was in quarantine: {reading.quarantine}"), clear)
        else:
            self.app.push_screen(Prompt("Why should nobody believe this reading?"), put)

    def action_back(self) -> None:
        table = self.query_one(StandingsTable)
        if self.has_class("-zoom"):
            self.remove_class("-zoom")
            table.focus()
        elif self.query_one(Filter).close() or not table.has_focus:
            table.focus()
        else:
            self.app.switch_mode("searches")
