"""`?`: what the focused part is for, and every key that works here."""

from __future__ import annotations

import textwrap
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen

from .canvas import Text
from .lines import Line

_WIDTH = 70
_PLACES = ("This part", "This page", "Moving", "Everywhere")
MOVES = frozenset({"down", "up", "page-down", "page-up", "first", "last", "left", "right", "back"})


class HelpScreen(ModalScreen[None]):
    """The help of another screen, over it."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 60%; }
    HelpScreen > Vertical {
        width: 76; max-width: 100%; height: auto; max-height: 90%; border: round $border; padding: 0 1;
        border-title-color: $text-primary; border-subtitle-color: $text-muted;
    }
    HelpScreen Text { height: auto; max-height: 100%; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,f1", "dismiss", "Close", id="close-help"),
    ]

    def __init__(self, about: Screen[Any]) -> None:
        super().__init__()
        self._lines = help_lines(about)

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Help"
            box.border_subtitle = "Esc closes"
            yield Text(id="help")

    def on_mount(self) -> None:
        text = self.query_one(Text)
        text.show(self._lines)
        text.styles.height = len(self._lines)
        text.focus()


def help_lines(screen: Screen[Any]) -> list[Line]:
    """What `?` says on a screen with its present focus."""
    lines: list[Line] = []
    focused = screen.focused
    for node in (focused, screen):
        words = getattr(node, "HELP", None)
        if words:
            lines += [((line, ""),) for part in words.split("\n") for line in textwrap.wrap(part, _WIDTH) or [""]]
            lines.append(())
    groups: dict[str, dict[tuple[int, str], tuple[list[str], str]]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if not binding.description or binding.system or binding.id is None:
            continue
        group = groups.setdefault(_place(active.node, binding.id, focused, screen), {})
        keys, _ = group.setdefault((id(active.node), binding.action), ([], binding.tooltip or binding.description))
        keys.append(screen.app.get_key_display(binding) if not binding.key_display else binding.key_display)
    for place in _PLACES:
        if place in groups:
            lines.append(((place, "title"),))
            for keys, what in groups[place].values():
                lines.append(((f"  {' '.join(dict.fromkeys(keys)):<12} ", "key"), (what, "")))
            lines.append(())
    return lines[:-1] if lines else []


def _place(node: DOMNode, name: str, focused: object, screen: Screen[Any]) -> str:
    if name in MOVES:
        return "Moving"
    if node is focused:
        return "This part"
    return "Everywhere" if node is screen.app else "This page"
