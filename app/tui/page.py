"""A page: one of the screens that the tabs lead to, and how it gets its data.

A page lays itself out in `body` and follows the store in two steps that never meet on one thread:

    class PricesPage(Page):
        TITLE = "Prices"

        def body(self) -> ComposeResult:
            yield Table(id="prices", columns=(Column("kernel", 20, grow=1), Column("time", 9, right=True)))

        def question(self) -> Callable[[Store], Rows]:
            wish = self.query_one("#prices", Table).wish       # on the loop: what is looked at
            return lambda store: prices(store, wish)           # on the reader's thread: short queries, plain data back

        def show(self, answer: Rows) -> None:
            self.query_one("#prices", Table).show(answer)      # on the loop again: no query, no computation

The app asks the page that is seen whenever the store has changed, when the page says `ask_again()` (the cursor moved,
a filter was typed) and every `EVERY_S` seconds where that is set. Questions come one after the other on one thread, so
what a question keeps between calls needs no lock; a `Store` object it has not seen means another file: forget what was
kept. Errors of the store are told under the page, and the page is asked again when the store is back.

A page is registered by one line in `pages.PAGES`. What changes something is done by `self.act(...)`, over `tools`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ...store.database import Store
from .chrome import KeyLine, Notice, TabLine

if TYPE_CHECKING:
    from .app import Viewer

Result = TypeVar("Result")


class Page(Screen[None]):
    """Base of the pages."""

    EVERY_S: ClassVar[float | None] = None
    """Ask again after so many seconds although nothing has changed: for ages and for what is not in the store."""
    HELP: ClassVar[str] = ""
    """What the page is for, in a few sentences: shown by `?`."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Back", show=False, id="back")]

    asked = True
    """Whether the page wants to be asked soon."""

    @property
    def viewer(self) -> Viewer:
        """The app."""
        from .app import Viewer

        assert isinstance(self.app, Viewer)
        return self.app

    def compose(self) -> ComposeResult:
        yield TabLine()
        yield from self.body()
        yield Notice()
        yield KeyLine()

    def body(self) -> ComposeResult:
        """The page's widgets, between tabs and footer."""
        yield from ()

    def question(self) -> Callable[[Store], Any] | None:
        """What to ask the store, as a function that will run on the reader's thread; None: nothing now."""
        return None

    def show(self, answer: Any) -> None:
        """Show the answer."""

    def lost(self) -> None:
        """There is no store any more, or another one: what is shown may stay, with the notice under it."""

    def ask_again(self) -> None:
        """Have the page asked as soon as the reader is free."""
        self.asked = True
        self.viewer.wake()

    def act(self, doing: str, action: Callable[[], Result], then: Callable[[Result], str | None] | None = None) -> None:
        """Do something that changes something, off the loop. doing: what is said if it fails. then: gets the result on
        the loop; the text it returns is shown for a while."""
        self.viewer.act(doing, action, then)

    def on_screen_resume(self) -> None:
        self.ask_again()

    def action_back(self) -> None:
        """Esc: exactly one level back."""
