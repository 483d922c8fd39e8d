"""Tables over lists of any length: a page of rows, a cursor that stays on its row, a wish for what is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive

from .canvas import Canvas
from .lines import Cell, Column, Line, layout, row_line


@dataclass(frozen=True)
class Row:
    """A row of a table: its key, which must be unique, and a cell for each column."""

    key: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Rows:
    """The rows `first`, `first + 1`, … of `total`. cursor: the number of the row that the cursor must be on now, where
    the reader knows better than the table (the row it was on has moved, or a follow mode says so)."""

    total: int
    first: int
    rows: tuple[Row, ...]
    cursor: int | None = None


NO_ROWS = Rows(0, 0, ())


@dataclass(frozen=True)
class Wish:
    """What a table would like to show: rows from `first` on, `count` of them; `key` is of the row its cursor is on."""

    first: int
    count: int
    key: str | None


class Table(Canvas):
    """Rows by number, of which only a page is there; a cursor; a head line. For lists of any length.

    A screen puts `wish` into its question to the store and shows the answer with `show(rows)`. When the user moves to
    where no rows are yet, the table says `Wanted`, and the screen asks again.
    """

    COLUMNS: tuple[Column, ...] = ()
    EMPTY: tuple[str, ...] = ("Nothing here yet.",)
    """What to say instead of no rows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Open", id="open"),
    ]

    cursor: reactive[int] = reactive(0, init=False)

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, table: Table, key: str | None) -> None:
            super().__init__()
            self.table, self.key = table, key

        @property
        def control(self) -> Table:
            return self.table

    class Chosen(Moved):
        """Enter on a row, or a second click."""

    class Wanted(Moved):
        """Rows are looked at that are not there."""

    def __init__(
        self, *, id: str | None = None, classes: str | None = None, columns: tuple[Column, ...] | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.columns = self.COLUMNS if columns is None else columns
        self.rows = NO_ROWS
        self.note: tuple[str, ...] | None = None
        """Says why there are no rows, instead of EMPTY."""
        self._key: str | None = None
        self._placing = False
        self._wished: int | None = None
        """Where the cursor was when the question was asked that is to be answered next."""

    # What it shows.

    def show(self, rows: Rows) -> None:
        """Show these rows. Where the cursor was moved since they were asked for, it stays moved by as much."""
        since = 0 if self._wished is None else self.cursor - self._wished
        self._wished = None
        same = (rows.total, rows.first, rows.rows) == (self.rows.total, self.rows.first, self.rows.rows)
        self.rows = rows
        wanted = self.cursor if rows.cursor is None else rows.cursor + since
        wanted = max(0, min(wanted, rows.total - 1))
        if not same:
            self.changed()
        if wanted != self.cursor:
            self._centre(wanted)
            self.cursor = wanted
        self._tell_moved()

    @property
    def wish(self) -> Wish:
        """What to ask the store for: what is seen, and a screenful on either side."""
        room = max(10, self.room)
        first = max(0, self.scroll_offset.y - room)
        self._wished = self.cursor
        return Wish(first, 3 * room, self.key)

    @property
    def key(self) -> str | None:
        """The key of the row under the cursor, or None."""
        row = self.row(self.cursor)
        return None if row is None else row.key

    def row(self, number: int) -> Row | None:
        """The row with that number, if it is there."""
        at = number - self.rows.first
        return self.rows.rows[at] if 0 <= at < len(self.rows.rows) else None

    @property
    def length(self) -> int:
        return self.rows.total or len(self._empty)

    @property
    def _empty(self) -> tuple[str, ...]:
        return self.EMPTY if self.note is None else self.note

    @property
    def has_head(self) -> bool:
        return any(column.title for column in self.columns)

    def head(self, width: int) -> Line:
        titles = [column.title for column in self.columns]
        return (("  ", ""), *row_line(titles, self.columns, layout(self.columns, width - 2)))

    def paint(self, number: int, width: int) -> Line:
        if not self.rows.total:
            return (("  ", ""), (self._empty[number], "dim"))
        here = number == self.cursor
        mark = ("▌ ", "mark" if self.has_focus else "dim") if here else ("  ", "")
        row = self.row(number)
        if row is None:
            return (mark, ("·", "faint"))
        return (mark, *row_line(row.cells, self.columns, layout(self.columns, width - 2)))

    def token(self, number: int) -> object:
        here = number == self.cursor
        return self.row(number), here, here and self.has_focus, self.rows.total == 0, self._empty

    def ground(self, number: int) -> str:
        if number != self.cursor or not self.rows.total:
            return ""
        return "cursor" if self.has_focus else "cursor-away"

    # Moving.

    def watch_cursor(self, old: int, new: int) -> None:
        self._see(new)
        self.refresh_line(old + self._top)
        self.refresh_line(new + self._top)
        self._tell_moved()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            # The wheel takes the cursor along: what keys and the other parts are about is always seen.
            top, room = self.scroll_offset.y, self.room
            if room > 0 and self.rows.total and not self._placing:
                self.cursor = max(top, min(self.cursor, top + room - 1, self.rows.total - 1))
            self._want()

    def watch_has_focus(self, value: bool) -> None:
        super().watch_has_focus(value)
        self.refresh_line(self.cursor + self._top)

    def _tell_moved(self) -> None:
        row = self.row(self.cursor)
        key = None if row is None else row.key
        if row is None and self.rows.total:
            self._want()
        elif key != self._key:
            self._key = key
            self.post_message(self.Moved(self, key))

    def _want(self) -> None:
        top = self.scroll_offset.y
        last = min(top + self.room, self.rows.total)
        have = range(self.rows.first, self.rows.first + len(self.rows.rows))
        seen = (top, last - 1, self.cursor)
        if self.rows.total and any(number >= 0 and number not in have for number in seen):
            self.post_message(self.Wanted(self, None))

    def _centre(self, number: int) -> None:
        """Bring a row that the cursor was sent to into the middle, unless it is seen already."""
        top, room = self.scroll_offset.y, self.room
        if room > 0 and not top <= number < top + room:
            self._place(number - room // 2)

    def _see(self, number: int) -> None:
        top, room = self.scroll_offset.y, self.room
        if room <= 0:
            return
        if number < top:
            self._place(number)
        elif number >= top + room:
            self._place(number - room + 1)

    def _place(self, top: int) -> None:
        self._placing = True
        try:
            self.scroll_to(y=top, animate=False, immediate=True)
        finally:
            self._placing = False

    def _go(self, number: int) -> None:
        self.cursor = max(0, min(number, self.rows.total - 1))

    def action_down(self) -> None:
        self._go(self.cursor + 1)

    def action_up(self) -> None:
        self._go(self.cursor - 1)

    def action_page(self, by: int) -> None:
        self._go(self.cursor + by * max(1, self.room - 1))

    def action_first(self) -> None:
        self._go(0)

    def action_last(self) -> None:
        self._go(self.rows.total - 1)

    def action_choose(self) -> None:
        if self.key is not None:
            self.post_message(self.Chosen(self, self.key))

    def on_click(self, event: events.Click) -> None:
        number = event.y - self._top + self.scroll_offset.y
        if event.y >= self._top and 0 <= number < self.rows.total:
            again = number == self.cursor
            self.cursor = number
            if again and event.chain == 2:
                self.action_choose()
