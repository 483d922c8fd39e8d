"""The ordinary viewer over a recording that is played: it says so all the time, and changes nothing."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType

from ...store.database import Store
from ...tools.demo.player import SPEEDS, Player
from .app import Viewer

Result = TypeVar("Result")


class DemoViewer(Viewer):
    """`kforecast demo`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("less_than_sign", "speed(-1)", "Slower", key_display="<", id="slower"),
        Binding("greater_than_sign", "speed(1)", "Faster", key_display=">", id="faster"),
        Binding("P", "hold", "Hold the recording", show=False, id="hold"),
    ]

    def __init__(self, player: Player, path: Path, *, first: str, theme: str | None = None) -> None:
        """player: prepared, not started. first: the id of the search to open."""
        super().__init__(path, theme=theme, first=first)
        self.player = player

    def on_mount(self) -> None:
        # Unwound by the app itself, which gives the terminal back as it was.
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)
        self.player.start()
        self.set_interval(1.0, lambda: self.beats.publish(self._beat))
        self.notify(
            f"{self.player.recording.about}. < and > change the speed, P holds it.",
            title="A recording, not this machine",
            timeout=8,
            markup=False,
        )

    async def on_unmount(self) -> None:
        self.player.stop()

    @property
    def liveness(self) -> tuple[str, str]:
        word, style = super().liveness
        if style != "tab--live":
            return word, style
        player = self.player
        if player.error is not None:
            return f"! recording: {player.error.what}", "tab--away"
        if player.ended:
            return "■ recording over", "tab--away"
        if player.paused:
            return "‖ recording held", "tab--away"
        return f"▶ recorded x{player.speed:g}", "tab--live"

    def action_speed(self, by: int) -> None:
        """The next slower or faster one of the speeds."""
        nearest = min(range(len(SPEEDS)), key=lambda place: abs(SPEEDS[place] - self.player.speed))
        self.player.speed = SPEEDS[max(0, min(len(SPEEDS) - 1, nearest + by))]
        self.beats.publish(self._beat)

    def action_hold(self) -> None:
        """Stand still, or go on."""
        self.player.paused = not self.player.paused
        self.beats.publish(self._beat)

    def change(
        self, doing: str, action: Callable[[Store], Result], then: Callable[[Result], str | None] | None = None
    ) -> None:
        del doing, action, then
        self.say("This is a recording. `kforecast search run FILE --budget 50m` begins a search of yours.", failed=True)
