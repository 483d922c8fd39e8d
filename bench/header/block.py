"""Finding the kernel header in a source text and reading its TOML, with errors in the user's own line numbers."""

from __future__ import annotations

import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...store.errors import InputError
from .tokens import tokens

if TYPE_CHECKING:
    from ...store.models import Language

VERSION = "1"
C_OPENING = f"/* kforecast {VERSION}"
PYTHON_OPENING = f"# /// kforecast {VERSION}"
PYTHON_CLOSING = "# ///"
MAX_CHARACTERS = 65536
MAX_DEPTH = 16
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")
"""A dotted key of more parts than any header needs."""

_C_LIKE = re.compile(r"/[*/]+!?[ \t]*kforecast\b(?P<rest>[^\n]*)", re.IGNORECASE)
_PYTHON_LIKE = re.compile(r"#[ \t]*///?/?[ \t]*kforecast\b(?P<rest>[^\n]*)", re.IGNORECASE)
_VERSION = re.compile(r"[ \t]*[:=]?[ \t]*v?(?P<version>[0-9][\w.]*)?", re.IGNORECASE)
_TOML_PLACE = re.compile(r"\s*\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")


@dataclass(frozen=True)
class HeaderBlock:
    """A header as written: `table` is its TOML, whose first line is line `first_line` of the source (from 1)."""

    table: dict[str, Any]
    text: str
    first_line: int

    def line_of(self, key: str) -> int | None:
        """The source line on which `key` is first given a value or opens a table; None where it cannot be told."""
        name = re.escape(key)
        found = re.search(rf"(?<![\w.-])[\"']?{name}[\"']?\s*(?:=|\.)|\[\s*(?:[\w-]+\s*\.\s*)*{name}\s*\]", self.text)
        return None if found is None else self.first_line + self.text.count("\n", 0, found.start())


def find_header(source: str, language: Language) -> HeaderBlock | None:
    """The header of a kernel source, or None where the file is bare.

    Raises InputError for a header that is not the first comment, a second header, an unknown version, a wrong opening,
    an unterminated comment or invalid TOML; the line is the source's.
    """
    if "kforecast" not in source.lower():
        return None
    python = language in ("triton", "torch")
    comments = _python_comments(source) if python else _c_comments(source)
    block: HeaderBlock | None = None
    first_comment: int | None = None
    for text, line in comments:
        rest = _header_like(text, python)
        if first_comment is None:
            first_comment = line
        if rest is None:
            continue
        if block is not None:
            raise InputError(
                f"a second kernel header on line {line}",
                value=text.splitlines()[0],
                next_step=f"Merge it into the header whose first line is {block.first_line}: a file has one.",
            )
        if line != first_comment:
            raise InputError(
                f"the kernel header on line {line} is not the file's first comment",
                value=f"the first comment is on line {first_comment}",
                next_step="Move the header above every other comment.",
            )
        _check_opening(text, rest, line, python)
        block = _python_block(source, line) if python else _c_block(text, line)
    return block


def _c_comments(source: str) -> Iterator[tuple[str, int]]:
    return ((token.text, token.line) for token in tokens(source) if token.kind == "comment")


def _python_comments(source: str) -> Iterator[tuple[str, int]]:
    """Comments with their lines, without `#!` lines and encoding cookies. Ends where the source stops being Python."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source.removeprefix("\ufeff")).readline):
            if token.type == tokenize.COMMENT and not re.match(r"#!|#.*coding[:=]", token.string):
                yield token.string, token.start[0]
    except (tokenize.TokenError, SyntaxError):
        return  # the compiler reports it, with the place


def _header_like(comment: str, python: bool) -> str | None:
    """What follows the word kforecast on a comment's first line, where the comment means to be a header."""
    match = (_PYTHON_LIKE if python else _C_LIKE).match(comment)
    if match is None:
        return None
    rest = match["rest"].strip().removesuffix("*/").strip()
    version = _VERSION.match(rest)
    return rest if not rest or (version is not None and version["version"]) else None


def _check_opening(comment: str, rest: str, line: int, python: bool) -> None:
    opening = PYTHON_OPENING if python else C_OPENING
    version = _VERSION.match(rest)
    if version is not None and version["version"] not in (None, VERSION):
        raise InputError(
            f"unknown kernel header version on line {line}",
            value=version["version"],
            next_step=f"This kforecast reads version {VERSION}: start the header with `{opening}`.",
        )
    if not comment.startswith(opening) or rest != VERSION:
        raise InputError(
            f"the kernel header on line {line} does not start as a header must",
            value=comment.splitlines()[0][:80],
            next_step=f"Its first line is exactly `{opening}`; what it declares follows on the next lines.",
        )
    if not python and not (comment.endswith("*/") and len(comment) > len(C_OPENING)):
        raise InputError(
            f"the kernel header that starts on line {line} does not end",
            value=comment.splitlines()[-1][-80:],
            next_step="Close the comment with `*/`.",
        )


def _c_block(comment: str, line: int) -> HeaderBlock:
    return _read(comment[len(C_OPENING) : -len("*/")], line, column_shift=0)


def _python_block(source: str, line: int) -> HeaderBlock:
    body: list[str] = []
    for text in source.removeprefix("\ufeff").split("\n")[line:]:
        if text.rstrip() == PYTHON_CLOSING:
            return _read("\n".join(body), line + 1, column_shift=len("# "))
        if not (text.startswith("# ") or text.rstrip() == "#"):
            break
        body.append(text.rstrip("\r")[len("# ") :])
    raise InputError(
        f"the kernel header that starts on line {line} does not end",
        value=f"line {line + len(body) + 1} is no comment line of it",
        next_step=f"Start each of its lines with `# ` and close it with the line `{PYTHON_CLOSING}`.",
    )


def _read(text: str, first_line: int, column_shift: int) -> HeaderBlock:
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            "the kernel header is too long",
            value=f"{len(text)} characters",
            next_step=f"Use at most {MAX_CHARACTERS} characters.",
        )
    place: re.Match[str] | None = None
    try:
        if _LONG_KEY.search(text):
            raise RecursionError  # before the parser, whose time grows with the square of a key's parts
        table = tomllib.loads(text)
    except RecursionError:
        what = "it nests too deep"
    except tomllib.TOMLDecodeError as error:
        place = _TOML_PLACE.search(str(error))
        what = _TOML_PLACE.sub("", str(error))
    except ValueError:
        what = "a number has too many digits"  # Python's limit for int(), the one ValueError tomllib lets through
    else:
        if _depth(table) <= MAX_DEPTH:
            return HeaderBlock(table, text, first_line)
        what = "it nests too deep"
    lines = text.split("\n")
    where, value = f"from line {first_line}", None
    if place is not None:
        at = int(place["line"] or len(lines))
        column = f", column {int(place['column']) + column_shift}" if place["column"] else ""
        where, value = f"line {first_line + at - 1}{column}", lines[at - 1].strip()[:80] or None
    raise InputError(
        f"the kernel header is not valid TOML ({where}): {what}",
        value=value,
        next_step="Correct it there; strings are quoted, and lists are written [1, 2].",
    )


def _depth(table: dict[str, Any]) -> int:
    """How deep tables and lists nest; a loop, because dotted keys nest without limit."""
    depth = 0
    level: list[Any] = [table]
    while level:
        depth += 1
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
    return depth
