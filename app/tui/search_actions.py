"""What can be done to a search from a page: each a use case of `tools`, asked for with a key."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from ...store.database import Store
from ...store.searches import ENDED, Search
from ...tools.search.budget import SYNTAX
from .dialogs import Confirm, Prompt
from .page import Page


class SearchActions(Page):
    """A page with a search under its cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "stop_search", "Stop", tooltip="End the search; what was measured stays", id="stop"),
        Binding("p", "pause_search", "Pause/resume", tooltip="Pause the search, or go on with it", id="pause"),
        Binding("plus", "extend_search", "Extend", key_display="+", tooltip="Add to its budget", id="extend"),
        Binding("R", "report_search", "Report", show=False, tooltip="Write its page to a file", id="report"),
    ]

    def chosen_search(self) -> Search | None:
        """The search that actions are about, as it was last read."""
        return None

    _offered: tuple[str, str] | None = None

    def offer_actions(self) -> None:
        """Have the footer say what can be done with the chosen search now."""
        search = self.chosen_search()
        now = None if search is None else (search.id, search.state)
        if now != self._offered:
            self._offered = now
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what can be done now is offered."""
        search = self.chosen_search() if action.endswith("_search") and self.is_mounted else None
        if action.endswith("_search") and search is None:
            return False
        if action == "stop_search":
            return search is not None and search.state not in ENDED
        return search is None or search.state != "failed" or action == "report_search"

    def action_stop_search(self) -> None:
        """Stop it, once the user has said yes."""
        search = self.chosen_search()
        if search is None:
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._tell(search, "stop")

        self.app.push_screen(Confirm(f"Stop the search of {search.task_name}? What was measured stays."), answered)

    def action_pause_search(self) -> None:
        """Pause what runs; go on with what does not."""
        search = self.chosen_search()
        if search is not None:
            running = search.state in ("working", "input_required") and not self.is_orphaned()
            self._tell(search, "pause" if running else "resume")

    def is_orphaned(self) -> bool:
        """Whether the chosen search should be worked on and is not."""
        return False

    def action_extend_search(self) -> None:
        """Add to its budget, and go on."""
        search = self.chosen_search()
        if search is None:
            return

        def answered(text: str | None) -> None:
            if text:
                self._tell(search, "extend", text)

        self.app.push_screen(Prompt("More budget for this search:", hint=SYNTAX, value="50m"), answered)

    def action_report_search(self) -> None:
        """Write the search's report beside where the tui was started."""
        search = self.chosen_search()
        if search is None:
            return

        def write(store: Store) -> Path:
            from ...store.errors import InputError
            from ...tools.search.report import report_of
            from ..search_report_page import search_report_page

            path = Path.cwd() / f"{search.id}.html"
            try:
                path.write_text(search_report_page(report_of(store, search.id)), encoding="utf-8")
            except OSError as error:
                step = "Start the tui in a directory that you may write to."
                raise InputError(
                    f"the file cannot be written ({error.strerror})", value=path, next_step=step
                ) from error
            return path

        self.viewer.change("The report was not written", write, lambda path: f"Written: {path}")

    def _tell(self, search: Search, order: str, budget: str | None = None) -> None:
        def tell_it(store: Store) -> str:
            from ...tools.search.use import tell

            return tell(search.id, order, budget=budget, by="tui", store=store).state  # type: ignore[arg-type]

        words = {"stop": "stopping", "pause": "pausing", "resume": "going on", "extend": "extended"}
        self.viewer.change(f"Could not {order} the search", tell_it, lambda _: f"{search.task_name}: {words[order]}.")
