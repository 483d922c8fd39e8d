"""A search as it goes on, in a few lines on stderr that overwrite themselves; silent where stderr is no terminal."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from ..tools.search.results import SearchResult

_BAR = 20
_PATIENCE_S = 30.0


class View:
    """The live view. It reads results and nothing else, so it may come and go."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._lines = 0
        self._cursor = -1
        self._since = time.monotonic()

    def show(self, result: SearchResult) -> None:
        """Draw the result over the last one."""
        if self._live:
            columns = shutil.get_terminal_size((80, 24)).columns
            lines = [line[: columns - 1] for line in view_lines(result)]
            sys.stderr.write(self._back() + "".join(f"\r\x1b[K{line}\n" for line in lines))
            sys.stderr.flush()
            self._lines = len(lines)

    def waited_long(self, cursor: int) -> bool:
        """Whether nothing was added to the log for a while."""
        now = time.monotonic()
        if cursor != self._cursor:
            self._cursor, self._since = cursor, now
        return now - self._since > _PATIENCE_S

    def _back(self) -> str:
        return f"\x1b[{self._lines}A" if self._lines else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._lines:
            sys.stderr.write(self._back() + "\r\x1b[K\n" * self._lines + self._back())
            sys.stderr.flush()


def view_lines(result: SearchResult) -> list[str]:
    """What the view shows: the summary, a bar a limit, the tally."""
    lines = [f"  {result.summary}"]
    for name, limit in result.limits.items():
        spent = result.spent.get(name, 0.0)
        filled = min(_BAR, round(_BAR * spent / limit))
        lines.append(f"  [{'#' * filled}{'.' * (_BAR - filled)}] {spent:.4g} of {limit:g} {name.replace('_', ' ')}")
    tally = ", ".join(f"{count} {name}" for name, count in result.counts.items() if count)
    return [*lines, f"  {tally or 'beginning'}"]
