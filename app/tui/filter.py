"""`/`: one line to type a filter into, under the list that it filters."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input


class Filter(Input):
    """Hidden until opened. Every change is said as `Filter.Now`; Enter keeps the text, Esc clears and closes."""

    HELP = "Type a part of what you look for. Enter keeps the filter and goes back to the list, Esc clears it."
    DEFAULT_CSS = """
    Filter { height: 1; border: none; padding: 0 1; display: none; background: $panel; }
    Filter:focus { border: none; background-tint: $foreground 5%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", "Clear filter", id="filter-clear"),
        Binding("down", "keep", "To the list", show=False, id="filter-keep"),
    ]

    class Now(Message):
        """The filter's text."""

        def __init__(self, filter_: Filter, text: str) -> None:
            super().__init__()
            self.filter, self.text = filter_, text

        @property
        def control(self) -> Filter:
            return self.filter

    def __init__(self, of: str, *, id: str | None = None) -> None:
        """of: the selector of the list that it filters."""
        super().__init__(placeholder="filter", id=id, compact=True, select_on_focus=False)
        self._of = of

    def open(self) -> None:
        """Show it and type into it."""
        self.display = True
        self.focus()

    def close(self) -> bool:
        """Clear and hide it; whether there was anything to do."""
        was = self.display
        self.value = ""
        self.display = False
        if was:
            self._to_list()
        return was

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Now(self, self.value.strip()))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_keep()

    def on_blur(self, event: events.Blur) -> None:
        if not self.value:
            self.display = False

    def action_clear(self) -> None:
        self.close()

    def action_keep(self) -> None:
        self._to_list()

    def _to_list(self) -> None:
        self.screen.query_one(self._of, Widget).focus()
