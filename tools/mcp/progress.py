"""Telling a client every few seconds that its call is alive, and how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import Context

EVERY_S = 5.0

Ctx = Context[Any, Any]


class Progress:
    """The progress of one call that waits at most `wait_s` seconds; `left_s` is what is left of them."""

    def __init__(self, ctx: Ctx, wait_s: float) -> None:
        self._ctx = ctx
        self._began = time.monotonic()
        self._wait_s = wait_s
        self._due_s = EVERY_S

    @property
    def left_s(self) -> float:
        """Seconds left; 0 when the call has to answer."""
        return max(self._wait_s - self._spent_s, 0.0)

    @property
    def pause_s(self) -> float:
        """Seconds until there is something to say or to answer."""
        return max(min(self.left_s, self._due_s - self._spent_s), 0.0)

    async def say(self, text: Callable[[], str]) -> None:
        """Report if it is time to; the text is made only then."""
        if self._spent_s >= self._due_s:
            self._due_s = self._spent_s + EVERY_S
            await self._ctx.report_progress(self._spent_s, max(self._wait_s, self._spent_s), text())

    @property
    def _spent_s(self) -> float:
        return time.monotonic() - self._began
