"""The widgets that draw live data: lines by number, painted when they are seen. No store is asked while painting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from .lines import Line, fitted, harmless, width_of
from .roles import ROLES

_MOST_STRIPS = 250


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
