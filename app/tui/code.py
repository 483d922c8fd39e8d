"""Sources and diffs as lines with roles. Runs on the reader's thread, where pygments is loaded when it is needed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from .lines import Line, Span

if TYPE_CHECKING:
    from pygments.token import _TokenType


@lru_cache(maxsize=64)
def code_lines(source: str, language: str) -> tuple[Line, ...]:
    """A source with line numbers. language: `c`, `cuda`, `triton`, `torch`."""
    lines = _highlighted(source, language)
    wide = len(str(len(lines)))
    return tuple(((f"{number:>{wide}} ", "faint"), *line) for number, line in enumerate(lines, start=1))


def _highlighted(source: str, language: str) -> list[Line]:
    from pygments.lexers.c_cpp import CLexer
    from pygments.lexers.c_like import CudaLexer
    from pygments.lexers.python import PythonLexer

    lexers = {"c": CLexer, "cuda": CudaLexer}
    lexer = lexers.get(language, PythonLexer)(stripnl=False, ensurenl=False)
    lines: list[Line] = []
    line: list[Span] = []
    for kind, text in lexer.get_tokens(source):
        role = _role(kind)
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append(tuple(line))
                line = []
            if part:
                line.append((part, role))
    return [*lines, tuple(line)] if line else lines


@lru_cache(maxsize=256)
def _role(kind: _TokenType) -> str:
    from pygments.token import Comment, Keyword, Literal, Name, Number, String

    roles = (
        (Comment.Preproc, "code-directive"),
        (Comment.PreprocFile, "code-directive"),
        (Comment, "code-comment"),
        (Keyword.Type, "code-type"),
        (Keyword, "code-keyword"),
        (Name.Builtin, "code-type"),
        (Name.Decorator, "code-directive"),
        (String, "code-text"),
        (Number, "code-number"),
        (Literal, "code-number"),
    )
    return next((role for known, role in roles if kind in known), "")


def diff_lines(diff: Iterable[str]) -> tuple[Line, ...]:
    """The lines of a unified diff; the sign in front says what the colour says."""
    roles = {"+": "added", "-": "removed", "@": "code-directive"}
    return tuple(((line, roles.get(line[:1], "")),) for line in diff)
