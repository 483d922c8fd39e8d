"""How tests drive the tui: open it on a store, wait for what they expect, press keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from kforecast.app.tui.app import Viewer
from kforecast.app.tui.canvas import Canvas
from kforecast.app.tui.table import Table

WAIT_S = 30.0


class Seat:
    """Somebody in front of the tui."""

    def __init__(self, app: Viewer, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def until(self, condition: Callable[[], Any], what: str = "") -> None:
        """Wait until it is so; fail with what is seen."""
        loop = asyncio.get_running_loop()
        end = loop.time() + WAIT_S
        while not condition():
            if loop.time() > end:
                raise AssertionError(f"waited in vain for {what or condition}\n{self.seen()}")
            await self.pilot.pause(0.02)

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.pilot.pause()

    async def rows(self, selector: str, count: int) -> Table:
        """The table, once it has so many rows."""
        table = self.table(selector)
        await self.until(lambda: table.rows.total == count, f"{count} rows of {selector}, has {table.rows.total}")
        return table

    def table(self, selector: str) -> Table:
        return self.app.screen_stack[0].query_one(selector, Table)

    def text(self, selector: str) -> str:
        """All lines of a part."""
        canvas = self.app.screen_stack[0].query_one(selector, Canvas)
        return "\n".join("".join(text for text, _ in canvas.paint(n, 200)) for n in range(canvas.length))

    def seen(self) -> str:
        """What stands on the screen."""
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())


def drive(
    act: Callable[[Seat], Awaitable[None]],
    path: Path,
    *,
    size: tuple[int, int] = (120, 40),
    **options: Any,
) -> None:
    """Run the tui on a store and act in it."""

    async def run() -> None:
        app = Viewer(path, timeout_s=0.05, **options)
        async with app.run_test(size=size, notifications=True) as pilot:
            await act(Seat(app, pilot))

    asyncio.run(run())
