"""The widgets that draw live data: lines by number, painted when they are seen. No store is asked while painting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from .lines import Cell, Column, Line, fitted, harmless, layout, row_line, width_of
from .roles import ROLES

_MOST_STRIPS = 1000


class Canvas(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines with roles, scrolled by keys and wheel. Subclasses say how many there are and what the n-th says."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"role--{name}" for name in ROLES}
    DEFAULT_CSS = """
    Canvas { overflow-x: hidden; overflow-y: scroll; scrollbar-size-horizontal: 0; }
    Text { overflow-x: scroll; }
    """
    HELP = ""
    """What the part is for, in a sentence or two: shown by `?`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "down", "Down", show=False, id="down"),
        Binding("up,k", "up", "Up", show=False, id="up"),
        Binding("pagedown,ctrl+d", "page(1)", "Page down", show=False, id="page-down"),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", show=False, id="page-up"),
        Binding("home,g", "first", "First", show=False, id="first"),
        Binding("end,G", "last", "Last", show=False, id="last"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._styles_of: dict[str, Style] = {}
        self._strips: dict[int, tuple[object, Strip]] = {}
        self._base: Style | None = None

    # What subclasses say.

    @property
    def length(self) -> int:
        """How many lines there are."""
        return 0

    @property
    def has_head(self) -> bool:
        """Whether a line stays on top."""
        return False

    def head(self, width: int) -> Line:
        """The line that stays on top."""
        return ()

    def paint(self, number: int, width: int) -> Line:
        """The line with that number."""
        raise NotImplementedError

    def ground(self, number: int) -> str:
        """The role whose background the line has; '' for none."""
        return ""

    def token(self, number: int) -> object:
        """What the line depends on: while it stays equal, the line is not painted anew."""
        return self.paint(number, 0)

    # Drawing.

    def changed(self) -> None:
        """Draw anew: what the lines say, or how many there are, is different now."""
        # Never shorter than its place, so that the scrollbar, which is always there, shows nothing: were it to come and
        # go, the whole screen would be laid out anew each time.
        least = 0 if self._grows else self.container_size.height
        size = Size(self._widest(), max(self.length + self._top, least))
        if size != self.virtual_size:
            # Not by assignment: a list that grew is no reason to lay out the whole screen anew.
            grown = self._grows and size.height != self.virtual_size.height
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)
            if grown:
                self.refresh(layout=True)
        self.refresh()

    @property
    def _grows(self) -> bool:
        """Whether its height follows from its lines."""
        return self.styles.height is not None and self.styles.height.is_auto

    def _widest(self) -> int:
        return self.scrollable_content_region.width or self.size.width

    @property
    def _top(self) -> int:
        return int(self.has_head)

    @property
    def room(self) -> int:
        """How many lines are seen at once."""
        return max(0, self.scrollable_content_region.height - self._top)

    def style_of(self, roles: str) -> Style:
        """The style of roles that stand together."""
        style = self._styles_of.get(roles)
        if style is None:
            style = Style()
            for role in roles.split():
                style += self._role(role)
            self._styles_of[roles] = style
        return style

    def _role(self, role: str) -> Style:
        """What a role says, and nothing else: its colours are mixed with what is behind them, as Textual mixes them."""
        own = self.get_component_rich_style(f"role--{role}", partial=True)
        mixed = self.get_component_rich_style(f"role--{role}")
        return own + Style(
            color=mixed.color if own.color is not None else None,
            bgcolor=mixed.bgcolor if own.bgcolor is not None else None,
        )

    def notify_style_update(self) -> None:
        self._styles_of.clear()
        self._strips.clear()
        self._base = None
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width or self.size.width
        if self._base is None:
            self._base = self.rich_style  # Textual mixes it anew each time, which takes longer than painting
        base = self._base
        if y == 0 and self.has_head:
            return self._strip(fitted(self.head(width), width), "head", base, width)
        number = y - self._top + self.scroll_offset.y
        if not 0 <= number < self.length:
            return Strip.blank(width, base)
        token = (self.token(number), self.ground(number), width, self.scroll_offset.x, base)
        known = self._strips.get(number)
        if known is not None and known[0] == token:
            return self._marked(known[1], number)
        line = self.paint(number, width + self.scroll_offset.x)
        strip = self._strip(line, self.ground(number), base, width).apply_offsets(self.scroll_offset.x, number)
        if len(self._strips) > _MOST_STRIPS:
            self._strips.clear()
        self._strips[number] = (token, strip)
        return self._marked(strip, number)

    def _marked(self, strip: Strip, number: int) -> Strip:
        """The line with the part that the mouse has selected."""
        span = None if self.text_selection is None else self.text_selection.get_span(number)
        if span is None:
            return strip
        left = self.scroll_offset.x
        start, end = max(0, span[0] - left), strip.cell_length if span[1] == -1 else span[1] - left
        style = self.screen.get_component_rich_style("screen--selection")
        return Strip.join([strip.crop(0, start), strip.crop(start, end).apply_style(style), strip.crop(end)])

    def _strip(self, line: Line, ground: str, base: Style, width: int) -> Strip:
        behind = base + self.style_of(ground) if ground else base
        # Reversed, every colour of a line would be another background: a line that is reversed as a whole has none.
        plain = bool(behind.reverse)
        segments = [
            Segment(harmless(text), behind if plain or not roles else behind + self.style_of(roles))
            for text, roles in line
        ]
        left = self.scroll_offset.x
        return Strip(segments, width_of(line)).crop_extend(left, left + width, behind)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """What the mouse selected, as text."""
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self.length - 1
        texts = []
        for number in range(max(0, first), min(last, self.length - 1) + 1):
            text = "".join(text for text, _ in self.paint(number, 4096)).rstrip()
            span = selection.get_span(number)
            if span is not None:
                start, end = span
                text = text[start:] if end == -1 else text[start:end]
            texts.append(text)
        return "\n".join(texts), "\n"

    def on_resize(self, event: events.Resize) -> None:
        self.changed()

    # Moving.

    def action_down(self) -> None:
        self.scroll_relative(y=1, animate=False)

    def action_up(self) -> None:
        self.scroll_relative(y=-1, animate=False)

    def action_page(self, by: int) -> None:
        self.scroll_relative(y=by * max(1, self.room - 1), animate=False)

    def action_first(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_last(self) -> None:
        self.scroll_to(y=self.length, animate=False)


class Text(Canvas):
    """Lines that are all there, such as a page about one thing. `show(lines)` replaces them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "sideways(-8)", "Left", show=False, id="left"),
        Binding("right,l", "sideways(8)", "Right", show=False, id="right"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: Sequence[Line] = ()

    def show(self, lines: Sequence[Line], *, top: bool = False) -> None:
        """Show these lines; `top` scrolls back to the first, for a page about another thing."""
        if top:
            self.scroll_to(y=0, x=0, animate=False)
        if lines != self._lines:
            self._lines = lines
            self.changed()

    @property
    def length(self) -> int:
        return len(self._lines)

    def paint(self, number: int, width: int) -> Line:
        return self._lines[number]

    def _widest(self) -> int:
        return max((width_of(line) for line in self._lines), default=0)

    def action_sideways(self, by: int) -> None:
        self.scroll_relative(x=by, animate=False)


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
