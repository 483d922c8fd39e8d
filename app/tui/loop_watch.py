"""The viewer with a watch on its own loop: for measuring, never loaded otherwise.

Writes JSON lines. Once a second `{"second", "worst_ms", "worst_cpu_ms", "cpu_ms"}`: the longest time that the loop did
not turn, the longest that its thread computed without turning, and what it computed in all. For each key
`{"key", "painted_ms"}`: up to the frame that came after it.
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

    async def on_unmount(self) -> None:
        self._watch_file.close()

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
        second = 0
        worst = worst_cpu = 0.0
        started, computed = time.perf_counter(), time.thread_time()
        begun = computed
        while True:
            before = time.perf_counter()
            await asyncio.sleep(_BEAT_S)
            now, spent = time.perf_counter(), time.thread_time()
            worst, worst_cpu = max(worst, now - before - _BEAT_S), max(worst_cpu, spent - computed)
            computed = spent
            if now - started >= second + 1:
                entry = {"worst_ms": worst, "worst_cpu_ms": worst_cpu, "cpu_ms": spent - begun}
                self._write({"second": second, **{name: 1000 * value for name, value in entry.items()}})
                second, worst, worst_cpu, begun = int(now - started), 0.0, 0.0, spent

    def _write(self, entry: dict[str, Any]) -> None:
        if not self._watch_file.closed:
            self._watch_file.write(json.dumps(entry) + "\n")
