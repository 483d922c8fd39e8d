"""The app: one reader of the store, one page at a time, actions off the loop."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.signal import Signal

from ...store.database import Store
from ...store.errors import KforecastError
from ...store.faults import StoreMissing
from ...tools.viewing.watch import Beat, Watch
from .help import MOVES, HelpScreen
from .keys import checked_keys
from .page import Page
from .pages import PAGES
from .quiet import Quiet
from .roles import stylesheet
from .theme import THEMES, checked_theme

Result = TypeVar("Result")
Work = TypeVar("Work")

TICK_S = 0.3
"""Between two looks at the store, where answers come quickly."""
_REST = 4.0
"""After a slow answer the reader rests this many times as long as it took, unless the user asks for something."""


class Viewer(App[None]):
    """`kforecast tui`. Reads the store and nothing else; what changes something goes through `act`."""

    TITLE = "kforecast"
    CSS = (
        stylesheet()
        + """
    Page { background: $background; }
    * { scrollbar-size: 1 1; scrollbar-color: $border; scrollbar-background: $background;
        scrollbar-color-hover: $primary; scrollbar-color-active: $primary; scrollbar-background-hover: $background;
        scrollbar-background-active: $background; scrollbar-corner-color: $background; }
    """
    )
    ENABLE_COMMAND_PALETTE = True
    MODES: ClassVar[dict[str, Any]] = {entry.name: entry.maker() for entry in PAGES}
    DEFAULT_MODE = PAGES[0].name
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"go('{entry.name}')", entry.title, show=False, id=f"go-{entry.name}")
            for number, entry in enumerate(PAGES, start=1)
        ),
        Binding("question_mark,f1", "help", "Help", key_display="?", id="help"),
        Binding("q", "quit", "Quit", id="quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, id="interrupt"),
        Binding("colon,ctrl+p", "command_palette", "Commands", key_display=":", show=False, id="commands"),
        Binding("z", "freeze", "Freeze the view", show=False, id="freeze"),
        Binding("ctrl+z", "suspend_process", "To the shell", show=False, id="suspend"),
    ]

    def __init__(
        self,
        path: Path | None = None,
        *,
        theme: str | None = None,
        keys: Mapping[str, str] | None = None,
        first: str | None = None,
        timeout_s: float = 1.0,
    ) -> None:
        """path: of the store; None is the user's. theme: a theme's name. keys: binding id -> keys. first: the id of a
        search to open at once. timeout_s: how long the reader waits for a locked store.
        Raises InputError for an unknown theme or binding id."""
        plain = bool(os.environ.get("NO_COLOR"))
        super().__init__(ansi_color=True if plain else None)
        for one in THEMES:
            self.register_theme(one)
        self.theme = "ansi-dark" if plain else checked_theme(theme)
        self.set_keymap(checked_keys(keys) if keys else {})
        self.watch_store = Watch(path, timeout_s=timeout_s)
        self.beats: Signal[Beat] = Signal(self, "beats")
        """Published when what is known of the store's fate has changed."""
        self.frozen = False
        self.selected_search: str | None = first
        """The search that the page Search shows."""
        self.selected_kernel: str | None = None
        """The kernel that the page Kernels is to go to, once."""
        self.known_searches: dict[str, str] = {}
        """Searches that were listed last, each in a few words: the command palette opens them."""
        self._beat = Beat("same")
        self._awake = asyncio.Event()
        self._quiet = Quiet(self)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-reader")

    def on_mount(self) -> None:
        self._quiet.start()
        if self.selected_search is not None:
            self.switch_mode("search")
        self.run_worker(self._follow(), name="follow", exit_on_error=True)

    async def on_unmount(self) -> None:
        self._quiet.stop()
        self._reader.submit(self.watch_store.close)
        self._reader.shutdown(wait=False)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key):
            self._quiet.typed()
        await super().on_event(event)

    # Following the store.

    @property
    def page(self) -> Page | None:
        """The page that is seen, perhaps under a dialog."""
        bottom = self.screen_stack[0] if self.screen_stack else None
        return bottom if isinstance(bottom, Page) else None

    def wake(self) -> None:
        """Look at the store now rather than at the next tick."""
        self._awake.set()

    async def _follow(self) -> None:
        asked_at, rest_s = 0.0, TICK_S
        while self.is_running:
            beat = await self._off(self.watch_store.poll)
            page = self.page
            if page is not None and page.is_mounted and self.is_running:
                now = time.monotonic()
                due = page.EVERY_S is not None and now - asked_at >= page.EVERY_S
                fresh = beat.pulse == "changed" or due
                if beat.readable and (page.asked or (fresh and not self.frozen)):
                    page.asked = False
                    asked_at = now
                    beat = await self._ask(page, beat)
                    rest_s = max(TICK_S, _REST * (time.monotonic() - now))
                elif not beat.readable:
                    page.asked = True
            self._heard(beat)
            self._awake.clear()
            if page is not self.page or (page is not None and page.asked and beat.readable):
                continue
            try:
                await asyncio.wait_for(self._awake.wait(), rest_s)
            except TimeoutError:
                continue

    async def _ask(self, page: Page, beat: Beat) -> Beat:
        question = page.question()
        if question is None:
            return beat
        answer = await self._off(self.watch_store.ask, question)
        if isinstance(answer, Beat):
            page.asked = True
            return answer
        if self.is_running and page.is_attached:
            page.show(answer)
        return beat

    async def _off(self, work: Callable[..., Work], *arguments: Any) -> Work:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work, *arguments)

    def _heard(self, beat: Beat) -> None:
        told = (self._beat.readable, self._beat.message)
        self._beat = beat
        if (beat.readable, beat.message) != told:
            if not beat.readable and beat.pulse != "locked" and (page := self.page) is not None:
                page.lost()
            self.beats.publish(beat)

    @property
    def liveness(self) -> tuple[str, str]:
        """A word on whether the view is live, and its style."""
        if not self._beat.readable:
            words = {"locked": "store locked", "missing": "no store", "unreadable": "store unreadable"}
            return f"! {words[self._beat.pulse]}", "tab--away"
        return ("= frozen", "tab--away") if self.frozen else ("● live", "tab--live")

    @property
    def trouble(self) -> str:
        """What is wrong with the store, or ''."""
        return "" if self._beat.readable else self._beat.message

    # Acting.

    def act(self, doing: str, action: Callable[[], Result], then: Callable[[Result], str | None] | None = None) -> None:
        """Do something off the loop; say what came of it, or what to do about its failure."""

        async def work() -> None:
            try:
                result = await asyncio.to_thread(action)
            except KforecastError as error:
                value = "" if error.value is None else f": {error.value}"
                self.say(f"{doing}: {error.what}{value}. {error.next_step}", failed=True)
                return
            said = None if then is None else then(result)
            if said:
                self.say(said)
            self.wake()

        self.run_worker(work(), group="actions", exit_on_error=True)

    def change(
        self, doing: str, action: Callable[[Store], Result], then: Callable[[Result], str | None] | None = None
    ) -> None:
        """As `act`, with the store opened for writing. A store that is gone is not made anew."""

        def work() -> Result:
            if not self.watch_store.path.exists():
                raise StoreMissing("The store is gone", value=self.watch_store.path, next_step="Put it back.")
            with Store.open(self.watch_store.path) as store:
                return action(store)

        self.act(doing, work, then)

    def say(self, text: str, *, failed: bool = False) -> None:
        """Show a short text for a while."""
        self.notify(text, severity="error" if failed else "information", timeout=10 if failed else 4, markup=False)

    def copy(self, text: str | None) -> None:
        """Put a text on the clipboard, by the terminal's own way (OSC 52), and say so."""
        if text:
            self.copy_to_clipboard(text)
            first = text.strip().splitlines()[0][:60]
            self.say(f"Copied: {first}" + (" …" if len(text) > len(first) else ""))

    def open_search(self, search_id: str | None) -> None:
        """Show a search in the page Search."""
        if search_id is not None:
            self.selected_search = search_id
            self.switch_mode("search")

    def open_kernel(self, kernel_id: str | None) -> None:
        """Show a kernel in the page Kernels."""
        if kernel_id is not None:
            self.selected_kernel = kernel_id
            self.switch_mode("kernels")

    def action_go(self, name: str) -> None:
        self.switch_mode(name)

    def action_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen))

    def action_freeze(self) -> None:
        self.frozen = not self.frozen
        self.beats.publish(self._beat)
        if not self.frozen and (page := self.page) is not None:
            page.ask_again()  # what came meanwhile

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        offered: set[tuple[int, str]] = set()
        for active in screen.active_bindings.values():
            action, node, name = active.binding.action, active.node, active.binding.id
            if not (name and active.binding.description and active.enabled) or name in (*MOVES, "commands"):
                continue
            if (id(node), action) not in offered:
                offered.add((id(node), action))
                yield SystemCommand(
                    active.binding.description,
                    f"{self.get_key_display(active.binding)}  {active.binding.tooltip}".strip(),
                    lambda action=action, node=node: self.call_next(self.run_action, action, node),
                )
        for search_id, label in self.known_searches.items():
            yield SystemCommand(
                f"Search {label}", f"Open {search_id}", lambda search_id=search_id: self.open_search(search_id)
            )
        yield SystemCommand("Theme", "Change the colours", self.action_change_theme)
