"""How pages are laid out: plain ASCII, 80 columns, tables that drop columns rather than wrap."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

WIDTH = 80
Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """`--json`: the answer as JSON on stdout, and nothing else there."""
    return click.option("--json", "as_json", is_flag=True, help="Answer as JSON on stdout, and nothing else there.")(
        command
    )


def print_json(value: object) -> None:
    """One JSON document on stdout, non-finite numbers refused."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def page_width() -> int:
    """Columns to lay out for: the terminal's, at least 60 and at most 120; 80 where stdout is no terminal."""
    return max(60, min(shutil.get_terminal_size((WIDTH, 24)).columns, 120)) if sys.stdout.isatty() else WIDTH


def bold(text: str) -> str:
    return click.style(text, bold=True)


def dim(text: str) -> str:
    return click.style(text, dim=True)


def heading(text: str) -> str:
    """A heading inside a page."""
    return bold(text)


def paragraph(text: str, *, label: str = "", indent: int = 2) -> str:
    """Text folded to the page, with a hanging label: `  next   Fix the first error …`."""
    lead = " " * indent + label
    return textwrap.fill(
        text,
        width=page_width(),
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )


def shorten(text: str, width: int) -> str:
    """The text in at most `width` columns, its middle left out."""
    if len(text) <= width:
        return text
    head = (width - 2) // 3
    return f"{text[:head]}..{text[len(text) - (width - 2 - head) :]}"


@dataclass(frozen=True)
class Column:
    """One column of a table. `drop`: columns with a higher number go first where the page is too narrow; 0 stays."""

    title: str
    cells: Sequence[str]
    right: bool = False
    drop: int = 0


def table(columns: Sequence[Column], *, indent: int = 2) -> str:
    """Aligned columns, two blanks apart, without those in which no cell says anything."""
    kept = [column for column in columns if any(cell not in ("", "-") for cell in column.cells)]
    while _width(kept, indent) > page_width() and any(column.drop for column in kept):
        kept.remove(max(kept, key=lambda column: column.drop))
    widths = [max(len(column.title), *(len(cell) for cell in column.cells)) for column in kept]
    rows = zip(*(column.cells for column in kept), strict=True)
    lines = [_row([column.title for column in kept], kept, widths, indent)]
    return "\n".join([dim(lines[0]), *(_row(cells, kept, widths, indent) for cells in rows)])


def _width(columns: Sequence[Column], indent: int) -> int:
    return indent + sum(2 + max(len(c.title), *(len(cell) for cell in c.cells)) for c in columns) - 2


def _row(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int], indent: int) -> str:
    parts = [
        cell.rjust(width) if column.right else cell.ljust(width)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    return (" " * indent + "  ".join(parts)).rstrip()


class Progress:
    """One line on stderr that overwrites itself, while stderr is a terminal; silent elsewhere."""

    def __init__(self) -> None:
        self._shown = False
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __call__(self, text: str) -> None:
        if self._live and text:
            columns = shutil.get_terminal_size((WIDTH, 24)).columns
            sys.stderr.write(f"\r\x1b[K{text[: columns - 1]}")
            sys.stderr.flush()
            self._shown = True

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
