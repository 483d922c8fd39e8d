"""C, C++ and CUDA source as tokens: comments, strings and directives told apart, no preprocessor run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Kind = Literal["comment", "text", "name", "number", "sign", "directive"]

_TOKEN = re.compile(
    r"""
    (?P<raw>(?:u8|[uUL])?R"(?P<tag>[^()\\\s"]{0,16})\(.*?(?:\)(?P=tag)"|\Z))
  | (?P<text>(?:u8|[uUL])?(?:"(?:\\.|[^"\\\n])*(?:"|(?=\n)|\Z)|'(?:\\.|[^'\\\n])*(?:'|(?=\n)|\Z)))
  | (?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))
  | (?P<name>[A-Za-z_$][\w$]*)
  | (?P<number>\.?[0-9](?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<sign>::|->|\.\.\.|\#\#|[^\s\\])
  """,
    re.VERBOSE | re.DOTALL,
)
_SPACE = re.compile(r"[\s\\]*")
_CONTINUED = re.compile(r"\\\r?\n")


@dataclass(frozen=True, slots=True)
class Token:
    """One token. A directive's `text` is the whole logical line without comments, e.g. `#define N 4`; the others' is as
    written. `start` and `end` are offsets into the source, `line` counts from 1."""

    kind: Kind
    text: str
    start: int
    end: int
    line: int


@lru_cache(maxsize=8)
def tokens(source: str) -> tuple[Token, ...]:
    """`scan` as a tuple, kept for the last few sources: header, includes and signatures all walk the same one."""
    return tuple(scan(source))


def scan(source: str) -> Iterator[Token]:
    """Every token of the source in order, comments included; preprocessor directives are one token each.

    An unterminated comment or raw string runs to the end of the source. Never raises: what is no C is a `sign`.
    """
    line, counted = 1, 0
    line_start = True  # nothing but blanks and comments since the last newline
    position = _skip_space(source, 0)
    previous_end = 0
    while position < len(source):
        if "\n" in source[previous_end:position]:
            line_start = True
        line += source.count("\n", counted, position)
        counted = position
        if source[position] == "#" and line_start:
            text, end = _directive(source, position)
            yield Token("directive", text, position, end, line)
        else:
            match = _TOKEN.match(source, position)
            assert match is not None, "every character that is no blank starts a token"
            kind, end = _kind(match), match.end()
            yield Token(kind, match.group(), position, end, line)
            line_start = line_start and kind == "comment"
        previous_end = end
        position = _skip_space(source, end)


def _kind(match: re.Match[str]) -> Kind:
    kinds: tuple[Kind, ...] = ("name", "sign", "number", "comment")
    for kind in kinds:
        if match[kind] is not None:
            return kind
    return "text"


def _skip_space(source: str, position: int) -> int:
    match = _SPACE.match(source, position)
    return position if match is None else match.end()


def _directive(source: str, start: int) -> tuple[str, int]:
    """The logical line at `start` with its comments as blanks and continued lines joined, and where it ends."""
    parts: list[str] = []
    position = start
    while position < len(source) and source[position] != "\n":
        continued = _CONTINUED.match(source, position)
        if continued:
            parts.append(" ")
            position = continued.end()
            continue
        match = _TOKEN.match(source, position)
        if match is None:
            parts.append(source[position])
            position += 1
            continue
        if match["comment"] is not None and match.group().startswith("//"):
            position = match.end()
            break
        parts.append(" " if match["comment"] is not None else match.group())
        position = match.end()
    return "".join(parts).strip(), position
