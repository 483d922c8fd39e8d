"""`?`: what the focused part is for, and every key that works here."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen

from .canvas import Text
from .lines import Line


class HelpScreen(ModalScreen[None]):
    """The help of another screen, over it."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 60%; }
    HelpScreen > Vertical {
        width: 76; max-width: 100%; height: auto; max-height: 90%; border: round $border; padding: 0 1;
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
        for sentence in _wrapped(getattr(node, "HELP", None) or ""):
            lines.append(((sentence, ""),))
        if getattr(node, "HELP", None):
            lines.append(())
    groups: dict[str, dict[tuple[int, str], tuple[list[str], str]]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if not binding.description or binding.system:
            continue
        group = groups.setdefault(_place(active.node, focused, screen), {})
        keys, _ = group.setdefault((id(active.node), binding.action), ([], binding.description))
        keys.append(screen.app.get_key_display(binding) if not binding.key_display else binding.key_display)
    for place in ("This part", "This page", "Everywhere"):
        if place not in groups:
            continue
        lines.append(((place, "title"),))
        for keys, what in groups[place].values():
            lines.append(((f"  {' '.join(dict.fromkeys(keys)):<18}", "key"), (what, "")))
        lines.append(())
    return lines[:-1] if lines else []


def _place(node: DOMNode, focused: object, screen: Screen[Any]) -> str:
    if node is focused:
        return "This part"
    return "Everywhere" if node is screen.app else "This page"


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(" ".join(text.split()), 70)
