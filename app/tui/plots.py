"""Plots drawn with characters: points and lines in a frame with numbered axes, told apart by shape, not by colour."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .lines import Line, Span, fitted

Point = tuple[float, float]
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Braille: bits of the 4 rows and 2 columns of dots in a cell."""
_BRAILLE = 0x2800
_LABEL = 6


@dataclass(frozen=True)
class Axis:
    """A range of numbers. ticks: where to write what; names: how a number is written."""

    low: float
    high: float
    ticks: tuple[float, ...]
    name: Callable[[float], str] = lambda value: f"{value:g}"

    def place(self, value: float) -> float:
        """0 at the low end, 1 at the high one; beyond them where the value is."""
        return (value - self.low) / (self.high - self.low)


@dataclass
class Plot:
    """A plot of `width` by `height` characters, labels and axes included."""

    width: int
    height: int
    across: Axis
    up: Axis
    title_up: str = ""
    title_across: str = ""
    _dots: dict[tuple[int, int], int] = field(default_factory=dict)
    _dot_roles: dict[tuple[int, int], str] = field(default_factory=dict)
    _marks: dict[tuple[int, int], Span] = field(default_factory=dict)

    @property
    def columns(self) -> int:
        """Characters across the drawing itself."""
        return max(1, self.width - _LABEL - 2)

    @property
    def rows(self) -> int:
        """Characters up the drawing itself: without titles and the axis below."""
        return max(1, self.height - 2 - (1 if self.title_up else 0))

    @property
    def left(self) -> int:
        """Characters before the drawing itself."""
        return _LABEL + 1

    @property
    def above(self) -> int:
        """Lines above the drawing itself."""
        return 1 if self.title_up else 0

    def line(self, points: Sequence[Point], role: str, *, every: int = 1) -> None:
        """A line through the points, of every dot or of each `every`-th."""
        for (x0, y0), (x1, y1) in pairwise(points):
            a, b = self._fine(x0, y0), self._fine(x1, y1)
            steps = max(1, math.ceil(max(abs(b[0] - a[0]), abs(b[1] - a[1]))))
            for step in range(0, steps + 1, every):
                share = step / steps
                self._dot(a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1]), role)

    def dots(self, points: Sequence[Point], role: str) -> None:
        """A dotted line through the points."""
        self.line(points, role, every=4)

    def mark(self, x: float, y: float, glyph: str, role: str) -> None:
        """A character at a point; over whatever is there. What lies outside is drawn at the rim."""
        self._marks[self.cell(x, y)] = (glyph, role)

    def cell(self, x: float, y: float) -> tuple[int, int]:
        """(column, row from above) of a point; at the rim for one that lies outside."""
        column = min(self.columns - 1, max(0, int(self.across.place(x) * self.columns)))
        row = min(self.rows - 1, max(0, int((1 - self.up.place(y)) * self.rows)))
        return column, row

    def lines(self) -> list[Line]:
        """The plot."""
        drawn: list[Line] = []
        if self.title_up:
            drawn.append(((" " * (_LABEL + 1), ""), *fitted(((self.title_up, "dim"),), self.columns)))
        labels = {self.cell(self.across.low, tick)[1]: self.up.name(tick) for tick in self.up.ticks}
        for row in range(self.rows):
            label = labels.get(row)
            rim = "┤" if label is not None else "│"
            drawn.append(((f"{label or '':>{_LABEL}}", "dim"), (rim, "faint"), *self._row(row)))
        drawn.append(((" " * _LABEL, ""), ("└", "faint"), *self._axis()))
        drawn.append(((" " * (_LABEL + 1), ""), (self._names(), "dim")))
        return drawn

    def _fine(self, x: float, y: float) -> Point:
        """A point in dots from the upper left."""
        return self.across.place(x) * self.columns * 2, (1 - self.up.place(y)) * self.rows * 4

    def _dot(self, x: float, y: float, role: str) -> None:
        column, row = math.floor(x), math.floor(y)
        column = column - 1 if column == self.columns * 2 else column
        row = row - 1 if row == self.rows * 4 else row
        if 0 <= column < self.columns * 2 and 0 <= row < self.rows * 4:
            cell = column // 2, row // 4
            self._dots[cell] = self._dots.get(cell, 0) | _DOTS[row % 4][column % 2]
            self._dot_roles[cell] = role

    def _row(self, row: int) -> list[Span]:
        spans: list[Span] = []
        for column in range(self.columns):
            cell = column, row
            if cell in self._marks:
                span = self._marks[cell]
            elif cell in self._dots:
                span = chr(_BRAILLE + self._dots[cell]), self._dot_roles[cell]
            else:
                span = " ", ""
            if spans and spans[-1][1] == span[1]:
                spans[-1] = spans[-1][0] + span[0], span[1]
            else:
                spans.append(span)
        return spans

    def _axis(self) -> tuple[Span, ...]:
        cells = ["─"] * self.columns
        for tick in self.across.ticks:
            cells[self.cell(tick, self.up.low)[0]] = "┴"
        return (("".join(cells), "faint"),)

    def _names(self) -> str:
        """The numbers under the axis, as many as fit, and its title at the end."""
        text = [" "] * self.columns
        ends = -1
        for tick in self.across.ticks:
            name = self.across.name(tick)
            start = min(self.columns - len(name), max(0, self.cell(tick, self.up.low)[0] - len(name) // 2))
            if start > ends and start >= 0:
                text[start : start + len(name)] = name
                ends = start + len(name)
        title = self.title_across
        if title and ends + 2 + len(title) <= self.columns:
            text[self.columns - len(title) :] = title
        return "".join(text)


def beside(left: Sequence[Line], right: Sequence[Line], width: int, gap: int = 2) -> list[Line]:
    """Two blocks of lines side by side; the left one is `width` wide."""
    rows = max(len(left), len(right))
    empty: Line = ()
    lines: list[Line] = []
    for number in range(rows):
        first = left[number] if number < len(left) else empty
        second = right[number] if number < len(right) else empty
        lines.append((*fitted(first, width), (" " * gap, ""), *second))
    return lines
