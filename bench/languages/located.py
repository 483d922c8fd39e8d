"""What is wrong with a Python text, as compilers say it: `FILE:LINE:COLUMN: error: …` and the line itself."""

from __future__ import annotations

from collections.abc import Mapping


def located(texts: Mapping[str, str], name: str, line: int | None, column: int | None, message: str) -> str:
    """A message with its place. texts: the sources by file name; line and column count from 1."""
    lines = texts.get(name, "").splitlines()
    where = f"{name}:{line}" + (f":{column}" if column else "")
    said = f"{where}: error: {message}"
    if line is None or not 1 <= line <= len(lines):
        return said
    text = lines[line - 1]
    marker = f"\n    {' ' * (column - 1)}^" if column and column <= len(text) + 1 else ""
    return f"{said}\n    {text}{marker}"


def syntax_error(texts: Mapping[str, str], name: str, error: SyntaxError) -> str:
    """Where a text is no Python, and what Python says of it."""
    return located(texts, name, error.lineno, error.offset, f"{type(error).__name__}: {error.msg}")
