"""The viewer with a watch on its own loop: for measuring, never loaded otherwise.

Writes JSON lines: `{"second", "worst_ms", "cpu_ms"}` once a second (the longest time that the loop did not turn, and
what of that second its thread computed), and `{"key", "painted_ms"}` for each key, up to the frame that came after it.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from textual import events

from .app import Viewer

_BEAT_S = 0.005


class WatchedViewer(Viewer):
    """As `Viewer`. `watch_log`: the file to write to, made anew."""

    watch_log: Path

    def on_mount(self) -> None:
        self._watch_file = self.watch_log.open("w", encoding="utf-8", buffering=1)
        self.run_worker(self._count_turns(), name="beat", exit_on_error=True)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key):
            pressed, key = time.perf_counter(), event.key

            def painted() -> None:
                self._write({"key": key, "painted_ms": 1000 * (time.perf_counter() - pressed)})

            await super().on_event(event)
            self.call_after_refresh(painted)
            return
        await super().on_event(event)

    async def _count_turns(self) -> None:
        """Ask to be called in a few milliseconds, over and over: how much later that is, the loop was blocked."""
        second, worst, computed = 0, 0.0, time.thread_time()
        started = time.perf_counter()
        while True:
            before = time.perf_counter()
            await asyncio.sleep(_BEAT_S)
            now = time.perf_counter()
            worst = max(worst, now - before - _BEAT_S)
            if now - started >= second + 1:
                spent = time.thread_time()
                self._write({"second": second, "worst_ms": 1000 * worst, "cpu_ms": 1000 * (spent - computed)})
                second, worst, computed = int(now - started), 0.0, spent

    def _write(self, entry: dict[str, Any]) -> None:
        self._watch_file.write(json.dumps(entry) + "\n")
