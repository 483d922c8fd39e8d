"""What frames every page: the tabs above, below them what is wrong with the store, and the keys that work here."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from rich.text import Text as RichText
from textual import events
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from .lines import harmless

if TYPE_CHECKING:
    from textual.binding import ActiveBinding

    from .app import Viewer


class TabLine(Widget):
    """The pages with their keys, the name of the store, and whether the view is live."""

    DEFAULT_CSS = """
    TabLine {
        dock: top; height: 1; padding: 0 1;
        background: $panel; color: $text-muted;
        .tab--here { color: $text-primary; text-style: bold reverse; }
        .tab--key { color: $text-accent; text-style: bold; }
        .tab--live { color: $text-success; }
        .tab--away { color: $text-warning; text-style: bold; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"tab--here", "tab--key", "tab--live", "tab--away"}
    ALLOW_SELECT = False

    def on_mount(self) -> None:
        cast("Viewer", self.app).beats.subscribe(self, lambda _: self.refresh())

    def render(self) -> RichText:
        from .pages import PAGES

        app = cast("Viewer", self.app)
        text = RichText(no_wrap=True, overflow="crop")
        for number, page in enumerate(PAGES, start=1):
            if page.name == app.current_mode:
                text.append(f" {number} {page.title} ", self.get_component_rich_style("tab--here", partial=True))
            else:
                text.append(f" {number}", self.get_component_rich_style("tab--key", partial=True))
                text.append(f" {page.title} ")
        word, style = app.liveness
        spare = self.content_size.width - text.cell_len - cell_len(word)
        if spare > 0:
            text.append(" " * spare)
            text.append(word, self.get_component_rich_style(style, partial=True))
        return text

    def on_click(self, event: events.Click) -> None:
        from .pages import PAGES

        at, x = 1, event.x
        for number, page in enumerate(PAGES, start=1):
            at += len(f" {number} {page.title} ")
            if x < at:
                self.app.switch_mode(page.name)
                return


class Notice(Static):
    """What is wrong with the store, and what to do about it. Not there while all is well."""

    DEFAULT_CSS = """
    Notice {
        dock: bottom; height: auto; max-height: 5; margin-bottom: 1; padding: 0 1; display: none;
        background: $warning 20%; color: $text-warning;
        &:ansi { text-style: bold; }
    }
    """

    def __init__(self) -> None:
        super().__init__("", markup=False)

    def on_mount(self) -> None:
        cast("Viewer", self.app).beats.subscribe(self, lambda _: self._tell())
        self._tell()

    def _tell(self) -> None:
        text = cast("Viewer", self.app).trouble
        self.update(harmless(text))
        self.display = bool(text)


class KeyLine(Widget):
    """The keys that do something here and now: the focused part's first. What does not fit is in `?`."""

    DEFAULT_CSS = """
    KeyLine {
        dock: bottom; height: 1; padding: 0 1;
        background: $panel; color: $text-muted;
        .keys--key { color: $text-accent; text-style: bold; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"keys--key"}
    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._spots: list[tuple[range, ActiveBinding]] = []
        """Which columns a click on does what."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._renewed)

    def _renewed(self, screen: Screen[object]) -> None:
        self.refresh()

    def render(self) -> RichText:
        entries, ends = self._offered()
        self._spots = []
        width = self.content_size.width - sum(map(self._wide, ends)) + 2
        text = RichText(no_wrap=True, overflow="crop")
        for active in entries:
            if self._wide(active) > width:
                break
            width -= self._wide(active)
            self._write(text, active)
        text.append(" " * max(0, width - 2))
        for active in ends:
            self._write(text, active)
        return text

    def _offered(self) -> tuple[list[ActiveBinding], list[ActiveBinding]]:
        """What is offered, and what stands at the end whatever fits before it."""
        entries: list[ActiveBinding] = []
        ends: list[ActiveBinding] = []
        seen: set[tuple[int, str]] = set()
        for active in self.screen.active_bindings.values():
            about = (id(active.node), active.binding.action)
            if active.binding.show and active.enabled and about not in seen:
                seen.add(about)
                (ends if active.binding.id in ("help", "quit") else entries).append(active)
        return entries, ends

    def _write(self, text: RichText, active: ActiveBinding) -> None:
        start = text.cell_len
        text.append(self._key_text(active), self.get_component_rich_style("keys--key", partial=True))
        text.append(f" {active.binding.description}  ")
        self._spots.append((range(start, text.cell_len - 2), active))

    def _wide(self, active: ActiveBinding) -> int:
        return cell_len(f"{self._key_text(active)} {active.binding.description}  ")

    def _key_text(self, active: ActiveBinding) -> str:
        return active.binding.key_display or self.app.get_key_display(active.binding)

    def on_click(self, event: events.Click) -> None:
        for spot, active in self._spots:
            if event.x - 1 in spot:
                self.app.call_next(self.app.run_action, active.binding.action, active.node)
                return
