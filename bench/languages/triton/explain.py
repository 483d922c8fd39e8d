"""What stopped Triton, in the user's lines: `FILE:LINE:COLUMN: error: …`, the line itself, and where it was called."""

from __future__ import annotations

import errno
import re
import traceback
from pathlib import Path

_DIAGNOSTIC = re.compile(r"^\S*?([\w.-]+\.py):(\d+):(\d+): (error|note|remark|warning): (.*)$", re.MULTILINE)
_REPR = re.compile(r"^(\w+)\(([\"'])(.*)\2,?\)$", re.DOTALL)
_MOST_CALLS = 5
_MOST_MESSAGE = 2000


def explain(error: BaseException, path: Path, printed: str) -> str:
    """The error of a file that did not run, or of a kernel in it that did not compile.

    path: the file; printed: what was printed meanwhile: there the later stages of the compiler put what they say.
    """
    source = path.read_text(errors="replace")
    if isinstance(error, SyntaxError) and error.filename in (str(path), None, "<unknown>"):
        return _located(path, source, error.lineno, error.offset, f"SyntaxError: {error.msg}")
    compilations = [link for link in _causes(error) if hasattr(link, "node") and hasattr(link, "src")]
    if compilations:
        return _of_compiler(compilations, path, source)
    found = [match for match in _DIAGNOSTIC.finditer(printed) if match[1] == path.name and match[4] == "error"]
    if found:
        first = found[0]
        return _located(path, source, int(first[2]), int(first[3]) + 1, first[5])
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        said += " (it printed or wrote more than it may)"
    elif isinstance(error, SystemExit):
        said = f"the file ended the program while it was imported (exit code {error.code})"
    if frames:
        return _located(path, source, frames[-1].lineno, None, said[:_MOST_MESSAGE])
    return f"{path.name}: error: {said[:_MOST_MESSAGE]}"


def _causes(error: BaseException) -> list[BaseException]:
    """The error and what caused it, outermost first."""
    found: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in found:
        found.append(link)
        link = link.__cause__
    return found


def _of_compiler(links: list[BaseException], path: Path, source: str) -> str:
    """Triton's CompilationErrors, from the kernel inwards: what the last says, where the last in the file is."""
    places: list[tuple[int, int]] = []
    for link in links:
        text, node = getattr(link, "src", None), getattr(link, "node", None)
        at = source.find(text) if isinstance(text, str) and text else -1
        if at >= 0 and node is not None and hasattr(node, "lineno"):
            # A node's line counts from the function's `def`, as the function's text was cut out of the file.
            places.append((source.count("\n", 0, at) + node.lineno, node.col_offset + 1))
    last = links[-1]
    cause = last.__cause__
    message = f"{type(cause).__name__}: {cause}" if cause else getattr(last, "error_message", None) or str(last)
    message = _REPR.sub(r"\1: \3", str(message))[:_MOST_MESSAGE]
    if not places:
        return f"{path.name}: error: {message}"
    said = _located(path, source, *places[-1], message)
    calls = [f"called from {path.name}:{line}" for line, _ in reversed(places[:-1])]
    return "\n".join([said, *calls[:_MOST_CALLS]])


def _located(path: Path, source: str, line: int | None, column: int | None, message: str) -> str:
    lines = source.splitlines()
    where = f"{path.name}:{line}" + (f":{column}" if column else "")
    said = f"{where}: error: {message}"
    if line is None or not 1 <= line <= len(lines):
        return said
    text = lines[line - 1]
    marker = f"\n    {' ' * (column - 1)}^" if column and column <= len(text) + 1 else ""
    return f"{said}\n    {text}{marker}"
