"""A few lines at the bottom of a terminal that are drawn over themselves; whatever scrolled by before stays."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Self, TextIO

_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_TO_LINE_END, _TO_SCREEN_END = "\x1b[K", "\x1b[J"


class Inline:
    """Draws on a terminal without taking its screen. What was drawn last stays when it ends."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """stream: None is standard output."""
        self._stream = stream or sys.stdout
        self._lines = 0
        self._size = size()

    def draw(self, lines: Sequence[str]) -> None:
        """Draw the lines, as many as the terminal has, over those drawn before."""
        now = size()
        back = f"\x1b[{self._lines}A\r" if self._lines else "\r"
        if now != self._size:
            # A terminal that grows narrower folds what stands there: nobody knows over how many rows.
            back = "\x1b[H\x1b[2J"
            self._size = now
        kept = list(lines[: now[1] - 1])
        body = "".join(f"{line}{_TO_LINE_END}\n" for line in kept)
        # One write, and no wrapping meanwhile: nothing flickers and a long line is cut, not folded.
        self._stream.write(f"{_NO_WRAP}{back}{body}{_TO_SCREEN_END}{_WRAP}")
        self._stream.flush()
        self._lines = len(kept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stream.flush()


def size() -> tuple[int, int]:
    """Columns and rows of the terminal."""
    found = shutil.get_terminal_size((80, 24))
    return found.columns, max(found.lines, 2)
