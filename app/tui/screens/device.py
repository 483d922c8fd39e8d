"""The page Device: every device's state, queue, lock and noise, and what it can do at best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from ....store import requests
from ....store.database import Store
from ....tools.viewing.machine import DeviceReader, QueueLine, Snapshot
from ..canvas import Text
from ..device_lines import about_lines, device_row, queue_row
from ..dialogs import Confirm
from ..lines import Column, Line
from ..page import Page
from ..table import Rows, Table


class DevicesTable(Table):
    """The devices there are, and those that the store has measurements of."""

    HELP = "This machine's devices, then those of other machines that the store knows. queue: in work + waiting."
    COLUMNS = (
        Column("device", 8, grow=1),
        Column("", 8),
        Column("model", 20, grow=3),
        Column("queue", 6, right=True),
        Column("measured", 8, right=True, drop=1),
        Column("last", 4, right=True, drop=2),
        Column("id", 12, grow=1, drop=3),
    )


class QueueTable(Table):
    """What the chosen device works on, and what waits for it."""

    HELP = (
        "Requests that are not finished, in the order in which they are begun. before: how many are begun first; "
        "left: until it has probably ended. `x` cancels one."
    )
    COLUMNS = (
        Column("", 9),
        Column("kernel", 16, grow=2),
        Column("before", 6, right=True),
        Column("left", 6, right=True),
        Column("progress", 24, grow=2, drop=2),
        Column("asked by", 14, grow=1, drop=1),
        Column("effort", 6, drop=4),
        Column("ago", 4, right=True, drop=3),
        Column("id", 10, drop=5),
    )
    EMPTY = ("Nothing waits for this device.",)


class About(Text):
    """The chosen device."""

    HELP = "The device's lock, its state now and how it moved while you watched, what measurements noted, its profile."


@dataclass(frozen=True)
class _Answer:
    snapshot: Snapshot
    lines: list[Line]


class DevicePage(Page):
    """The page Device."""

    HELP = "What the devices do. Tab goes from the devices to the chosen one's state to its queue."
    EVERY_S = 1.0
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 -- as Screen has it
    CSS = """
    DevicePage {
        #devices { height: 4; }
        #body { height: 1fr; }
        #about { height: 2fr; width: 1fr; padding: 0 1; border-top: solid $border; border-title-color: $text-muted; }
        #queue { height: 1fr; width: 1fr; border-top: solid $border; border-title-color: $text-muted; }
        Canvas:focus { border-title-color: $text-primary; border-title-style: bold; }
    }
    DevicePage.-wide { #body { layout: horizontal; } #about { height: 1fr; }
        #queue { height: 1fr; border-left: solid $border; } }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "device(-1)", "Device", key_display="[", show=False, id="device-before"),
        Binding("right_square_bracket", "device(1)", "Device", key_display="[ ]", id="device-after"),
        Binding("x", "cancel", "Cancel request", tooltip="Take the request out of the queue", id="cancel"),
        Binding("y", "copy", "Copy id", show=False, id="copy"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._reader = DeviceReader()
        self._device: str | None = None
        self._queue: dict[str, QueueLine] = {}

    def body(self) -> ComposeResult:
        yield DevicesTable(id="devices")
        with Container(id="body"):
            yield About(id="about")
            yield QueueTable(id="queue")

    def on_mount(self) -> None:
        self.query_one("#devices").focus()

    # Asking and showing.

    def question(self) -> Callable[[Store], _Answer]:
        wanted, width = self._device, max(20, self.query_one(About).content_size.width - 1)

        def answer(store: Store) -> _Answer:
            found = self._reader.look(store, wanted)
            return _Answer(found, [] if found.about is None else about_lines(found.about, width))

        return answer

    def show(self, answer: _Answer) -> None:
        found = answer.snapshot
        about = self.query_one(About)
        key = None if found.about is None else found.about.line.key
        here = next((number for number, one in enumerate(found.devices) if one.key == key), None)
        devices = self.query_one(DevicesTable)
        # No taller than it has to be.
        devices.styles.height = max(2, min(len(found.devices) + 1, 5))
        devices.show(Rows(len(found.devices), 0, tuple(map(device_row, found.devices)), here))
        about.border_title = "state; looking for GPUs" if found.looking else "state"
        about.show(answer.lines, top=key != self._device)
        self._device = key
        self._queue = {one.id: one for one in found.queue}
        queue = self.query_one(QueueTable)
        queue.show(Rows(len(found.queue), 0, tuple(map(queue_row, found.queue))))
        more = f", the first {len(found.queue)} of {found.waiting:,}" if found.waiting > len(found.queue) else ""
        queue.border_title = f"queue{more}"

    @on(Table.Moved, "#devices")
    def _other(self, event: Table.Moved) -> None:
        if event.key is not None and event.key != self._device:
            self._device = event.key
            self.ask_again()

    @on(Table.Chosen, "#devices")
    def _to_queue(self) -> None:
        self.query_one(QueueTable).focus()

    # Keys.

    def action_device(self, by: int) -> None:
        table = self.query_one(DevicesTable)
        table.cursor = max(0, min(table.rows.total - 1, table.cursor + by))

    def action_cancel(self) -> None:
        """Take the request under the cursor out of the queue, once the user has said yes."""
        one = self._queue.get(self.query_one(QueueTable).key or "")
        if one is None:
            self.viewer.say("Nothing waits for this device.")
            return

        def answered(yes: bool | None) -> None:
            def cancel(store: Store) -> str:
                from ....bench.broker import client

                found = requests.get(store, one.id)
                return "gone" if found is None else client.cancel(store, found).state

            if yes:
                self.viewer.change("Not cancelled", cancel, lambda state: f"{one.kernel}: {state}.")

        self.app.push_screen(Confirm(f"Cancel measuring {one.kernel}, asked for by {one.client}?"), answered)

    def action_copy(self) -> None:
        self.viewer.copy(self.query_one(QueueTable).key if self.query_one(QueueTable).has_focus else self._device)

    def action_back(self) -> None:
        table = self.query_one(DevicesTable)
        if not table.has_focus:
            table.focus()
        else:
            self.app.switch_mode("searches")
