"""Text as widgets draw it: spans with roles instead of colours, columns that fit their width, nothing a source can do.

Kernels, ideas and errors are written by strangers. Whatever they contain, a terminal must only ever show it: control
characters, escape sequences and marks that turn text around are replaced before a line reaches the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

Span = tuple[str, str]
"""A text and its role (see `roles`); several roles stand together with blanks between them; '' is plain."""
Line = tuple[Span, ...]
Cell = str | Span | Line
"""What stands in one column of one row."""

_UNSHOWN: dict[int, str] = dict.fromkeys(
    (
        *range(32),
        *range(0x7F, 0xA0),
        0x061C,
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
        0xFEFF,
    ),
    "\N{REPLACEMENT CHARACTER}",
)
_UNSHOWN[ord("\t")] = "    "


def harmless(text: str) -> str:
    """The text as one line that a terminal only shows."""
    return text if text.isascii() and text.isprintable() else text.translate(_UNSHOWN)


def line_of(cell: Cell) -> Line:
    """A cell as spans."""
    if isinstance(cell, str):
        return ((cell, ""),)
    if len(cell) == 2 and isinstance(cell[0], str) and isinstance(cell[1], str):
        return ((cell[0], cell[1]),)
    return tuple(span for span in cell if isinstance(span, tuple))


def width_of(line: Line) -> int:
    """Columns that a line takes."""
    return sum(cell_len(text) for text, _ in line)


def fitted(line: Line, width: int, *, right: bool = False) -> Line:
    """The line in exactly `width` columns: filled up with blanks, or cut with an ellipsis."""
    line = tuple((harmless(text), role) for text, role in line)
    used = width_of(line)
    if used <= width:
        blank: Span = (" " * (width - used), "")
        return (blank, *line) if right else (*line, blank)
    if width <= 0:
        return ()
    kept: list[Span] = []
    left = width - 1
    for text, role in line:
        wide = cell_len(text)
        if wide > left:
            kept.append((set_cell_size(text, left) + "…", role))
            return tuple(kept)
        kept.append((text, role))
        left -= wide
    return tuple(kept)


@dataclass(frozen=True)
class Column:
    """A column of a table. width: the least it takes. grow: its share of what is left over. drop: columns with a higher
    number go first where the room is short; 0 always stays."""

    title: str
    width: int
    grow: int = 0
    right: bool = False
    drop: int = 0


_GAP = 2


def layout(columns: Sequence[Column], width: int) -> list[tuple[int, int]]:
    """Which columns fit into `width`, in order, and how wide each is: [(index, width), …]."""
    kept = list(range(len(columns)))

    def needed() -> int:
        return sum(columns[index].width for index in kept) + _GAP * (len(kept) - 1)

    while needed() > width and any(columns[index].drop for index in kept):
        kept.remove(max(reversed(kept), key=lambda index: columns[index].drop))
    spare = max(0, width - needed())
    shares = sum(columns[index].grow for index in kept)
    widths = []
    for index in kept:
        column = columns[index]
        extra = 0 if not shares else spare * column.grow // shares
        widths.append((index, column.width + extra))
    return widths


def row_line(cells: Sequence[Cell], columns: Sequence[Column], places: Sequence[tuple[int, int]]) -> Line:
    """A row's cells in their places, with gaps between them."""
    spans: list[Span] = []
    for number, (index, width) in enumerate(places):
        if number:
            spans.append((" " * _GAP, ""))
        spans.extend(fitted(line_of(cells[index]), width, right=columns[index].right))
    return tuple(spans)


def joined(parts: Sequence[Line], width: int, *, gap: int = 3) -> Line:
    """Parts side by side with gaps between them; those that do not fit whole are left out, but never the first."""
    line: list[Span] = []
    used = 0
    for part in parts:
        wide = width_of(part)
        if not wide:
            continue
        if line and used + gap + wide > width:
            continue
        if line:
            line.append((" " * gap, ""))
            used += gap
        line.extend(part)
        used += wide
    return tuple(line)
