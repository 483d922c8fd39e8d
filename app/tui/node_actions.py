"""What can be done with a candidate from a page: measure it, believe it or not, take its source elsewhere."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path, PurePath
from typing import ClassVar

from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType

from ...store.database import Store
from ...tools.viewing.node import NodeView
from .dialogs import Confirm, Prompt
from .search_actions import SearchActions


class NodeActions(SearchActions):
    """A page with a candidate under its cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "measure_node", "Measure", tooltip="Measure this candidate against the seed", id="measure"),
        Binding(
            "exclamation_mark",
            "quarantine_node",
            "Quarantine",
            show=False,
            key_display="!",
            tooltip="Put its measurement into quarantine, or clear it",
            id="quarantine",
        ),
        Binding("e", "edit_source", "Editor", show=False, tooltip="Open a copy of its source in $EDITOR", id="editor"),
        Binding("y", "copy_id", "Copy id", show=False, id="copy"),
        Binding("Y", "copy_source", "Copy source", show=False, id="copy-source"),
    ]

    def chosen_node(self) -> NodeView | None:
        """The candidate that actions are about, as it was last read."""
        return None

    def action_measure_node(self) -> None:
        """Ask for its measurement; the answer shows up here and in the feed."""
        node, search = self.chosen_node(), self.chosen_search()
        if node is None or search is None:
            return
        kernel, seed, device = node.kernel.id, node.seed.id, search.device

        def measure_it(store: Store) -> str:
            from ...bench.broker import processes_alive
            from ...tools.measure import measure

            baseline = "none" if kernel == seed else seed
            asked_by = processes_alive.owner_name("tui")
            return measure(kernel, baseline=baseline, device=device, wait_s=0.0, client=asked_by, store=store).summary

        said = f"Asked for on {device}; the result comes into the feed."
        self.viewer.change("Not measured", measure_it, lambda _: said)

    def action_quarantine_node(self) -> None:
        """Put its newest measurement into quarantine with a reason, or clear it."""
        node = self.chosen_node()
        found = None if node is None else node.measurement
        if found is None:
            self.viewer.say("There is no measurement of it in this store.", failed=True)
            return
        path = self.viewer.watch_store.path

        def clear(yes: bool | None) -> None:
            from ...tools import quarantine

            if yes:
                self.act(
                    "Not cleared", lambda: quarantine.clear(found.id, path), lambda line: f"{line.name} is believed."
                )

        def put(reason: str | None) -> None:
            from ...tools import quarantine

            if reason:
                self.act(
                    "Not put into quarantine",
                    lambda: quarantine.put(found.id, reason, path),
                    lambda line: f"{line.name} is in quarantine.",
                )

        if found.quarantine is not None:
            self.app.push_screen(Confirm(f"Believe it from now on? It was in quarantine: {found.quarantine}"), clear)
        else:
            self.app.push_screen(Prompt("Why should nobody believe this measurement?"), put)

    def action_copy_id(self) -> None:
        """The kernel's id: what the command line and agents take."""
        node = self.chosen_node()
        self.viewer.copy(None if node is None else node.kernel.id)

    def action_copy_source(self) -> None:
        """The whole source, with the values of its tunables as defaults."""
        node = self.chosen_node()
        if node is not None:
            self.viewer.copy(_as_file(node))

    def action_edit_source(self) -> None:
        """Open a copy in the user's editor. A copy that was changed stays, and its path is told."""
        node = self.chosen_node()
        if node is None:
            return
        command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        text = _as_file(node)
        suffix = PurePath(node.kernel.name).suffix or {"c": ".c", "cuda": ".cu"}.get(node.kernel.language, ".py")
        copy = Path(tempfile.mkdtemp(prefix="kforecast-")) / f"candidate_{node.node.ordinal}{suffix}"
        copy.write_text(text, encoding="utf-8")
        try:
            with self.app.suspend():
                subprocess.run([*shlex.split(command), str(copy)], check=False)
        except SuspendNotSupported:
            self.viewer.say("This terminal cannot be given to an editor.", failed=True)
        except (OSError, ValueError) as error:
            self.viewer.say(f"{command}: {error}. Set EDITOR to your editor.", failed=True)
        if copy.read_text(encoding="utf-8", errors="replace") == text:
            copy.unlink()
            copy.parent.rmdir()
        else:
            self.viewer.say(f"Your copy: {copy}")
        self.refresh()


def _as_file(node: NodeView) -> str:
    from ...tools.search.best import best_as_file

    return best_as_file(node.kernel)
