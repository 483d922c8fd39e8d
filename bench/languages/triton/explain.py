"""What stopped Triton, in the user's lines: `FILE:LINE:COLUMN: error: …`, the line itself, and where it was called."""

from __future__ import annotations

import errno
import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..located import located, syntax_error

_DIAGNOSTIC = re.compile(r"(?:\S*/)?([\w.-]+\.py):(\d+):(\d+): error: (.*)$")
_STAGE = re.compile(r"Pipeline failed while executing \[`(\w+)`")
_REPR = re.compile(r"^(\w+)\(([\"'])(.*)\2,?\)$", re.DOTALL)
_MOST_CALLS = 5
_MOST_MESSAGE = 2000


def explain(error: BaseException, folder: Path, names: list[str], printed: str) -> str:
    """The error of a file that did not run, or of a kernel in it that did not compile.

    names: of the kernel file, then of the files it includes, in `folder`; printed: what was printed meanwhile: there
    the later stages of the compiler put what they say.
    """
    texts = {name: (folder / name).read_text(errors="replace") for name in names}
    if isinstance(error, SyntaxError):
        name = _name(folder, error.filename) if error.filename else names[0]
        return syntax_error(texts, name, error)
    compilations = [link for link in _causes(error) if hasattr(link, "node") and hasattr(link, "src")]
    if compilations:
        return _of_compiler(compilations, texts)
    lines = (line for line in printed.splitlines() if len(line) <= _MOST_MESSAGE)
    found = next((match for line in lines if (match := _DIAGNOSTIC.match(line)) and match[1] in texts), None)
    if found is not None:
        stage = _STAGE.search(printed[-_MOST_MESSAGE:])
        message = found[4] + (f" (in {stage[1]})" if stage else "")
        return located(texts, found[1], int(found[2]), int(found[3]) + 1, message)
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        said += " (it printed or wrote more than it may)"
    elif isinstance(error, SystemExit):
        said = f"the file ended the program while it was imported (exit code {error.code})"
    said = said[:_MOST_MESSAGE]
    frames = [(_name(folder, frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    own = [(name, line) for name, line in frames if name in texts]
    return located(texts, *own[-1], None, said) if own else f"{names[0]}: error: {said}"


def _name(folder: Path, file: str) -> str:
    return str(Path(file).relative_to(folder)) if Path(file).is_relative_to(folder) else file


def _causes(error: BaseException) -> list[BaseException]:
    """The error and what caused it, outermost first."""
    found: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in found:
        found.append(link)
        link = link.__cause__
    return found


def _of_compiler(links: list[BaseException], texts: Mapping[str, str]) -> str:
    """Triton's CompilationErrors, from the kernel inwards: what the last says, where the last in these files is."""
    places = [place for link in links for place in [_place(link, texts)] if place is not None]
    last = links[-1]
    cause = last.__cause__
    message = f"{type(cause).__name__}: {cause}" if cause else getattr(last, "error_message", None) or str(last)
    message = _REPR.sub(r"\1: \3", str(message))[:_MOST_MESSAGE]
    if not places:
        return f"{next(iter(texts))}: error: {message}"
    said = located(texts, *places[-1], message)
    calls = [f"called from {name}:{line}" for name, line, _ in reversed(places[:-1])]
    return "\n".join([said, *calls[:_MOST_CALLS]])


def _place(link: BaseException, texts: Mapping[str, str]) -> tuple[str, int, int] | None:
    """File, line and column of a CompilationError. A node's line counts from the function's `def`, as the function's
    text was cut out of its file.
    """
    function = getattr(link, "src", None)
    node: Any = getattr(link, "node", None)
    if not isinstance(function, str) or not function or not hasattr(node, "lineno"):
        return None
    for name, text in texts.items():
        at = text.find(function)
        if at >= 0:
            return name, text.count("\n", 0, at) + int(node.lineno), int(node.col_offset) + 1
    return None
