"""Questions to the user: yes or no, or one line of text."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from .chrome import KeyLine

_CSS = """
{0} {{ align: center middle; background: $background 60%; }}
{0} > Vertical {{
    width: 64; max-width: 100%; height: auto; border: round $border; padding: 0 1; background: $surface;
}}
{0} Static {{ width: 1fr; height: auto; padding: 1 1 0 1; }}
{0} Input {{ margin: 1; border: none; height: 1; padding: 0 1; background: $panel; }}
{0} .hint {{ color: $text-muted; padding: 0 1 1 1; }}
"""


class Confirm(ModalScreen[bool]):
    """`y` or Enter is yes, `n` or Esc is no."""

    DEFAULT_CSS = _CSS.format("Confirm")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)", "Yes", id="yes"),
        Binding("n,escape,q", "answer(False)", "No", id="no"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._question, markup=False)
            yield Static("y  yes    n  no", classes="hint", markup=False)
        yield KeyLine()

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class Prompt(ModalScreen[str | None]):
    """One line of text; Esc gives None."""

    DEFAULT_CSS = _CSS.format("Prompt")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", id="cancel-prompt")]

    def __init__(self, question: str, *, hint: str = "", value: str = "") -> None:
        super().__init__()
        self._question, self._hint, self._value = question, hint, value

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._question, markup=False)
            yield Input(self._value, compact=True)
            yield Static(self._hint or "Enter  go on    Esc  cancel", classes="hint", markup=False)
        yield KeyLine()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value.strip() or None)

    def action_cancel(self) -> None:
        self.dismiss(None)
