"""C texts without what their string literals say: nothing runs faster for it, and whoever reads it may believe it."""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"""
      (?P<kept>^[ \t]*\#[ \t]*include[^\n]*|\bextern\s*"C(?:\+\+)?"|\b\d[\w.']*)
    | (?P<text>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\((?:.*?\)(?P=mark)"|.*\Z)
            | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n]){5,}')
    | (?P<asm>\b(?:asm|__asm__|__asm)\b)
    | (?P<open>\() | (?P<close>\))
    | '(?:\\.|[^'\\\n])*'
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_REMARK = re.compile(r"//.*?(?=\\n|\"|$)|/\*.*?(?:\*/|\Z)", re.DOTALL)
MASK = '"..."'


def without_literals(source: str) -> str:
    """A C or CUDA text, comments taken out already, with `"..."` for each string literal.

    Kept are names of includes, `extern "C"`, and inline assembly, less the comments in it: that is code.
    """
    depth = 0
    coming = False

    def told(match: re.Match[str]) -> str:
        nonlocal depth, coming
        piece = match.group()
        if match["asm"]:
            coming = True
        elif match["open"] and (coming or depth):
            depth, coming = depth + 1, False
        elif match["close"] and depth:
            depth -= 1
        elif match["text"]:
            return _REMARK.sub(" ", piece) if depth else MASK
        return piece

    return _PIECE.sub(told, source)
