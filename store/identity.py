"""Identities: hashes of normalised content, and random ids for events in time."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

_C_TOKEN = re.compile(
    r"""
    (?P<raw>(?<![A-Za-z0-9_])(?:u8|[uUL])?R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)")
  | (?P<number>(?<![A-Za-z0-9_])\.?[0-9](?:'[A-Za-z0-9_]|[A-Za-z0-9_.])*)
  | (?P<include>^[ \t]*\#[ \t]*include[ \t]*<[^>\n]*>)
  | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
  | (?P<nul>\x00)
  | (?P<comment>//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))
  | (?P<splice>\\\n)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
"""What to tell apart in C before blanks may go. In a number `'` opens no literal, in an include `//` no comment."""

_PYTHON_TOKEN = re.compile(
    r"""
    (?P<long>\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3})
  | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
  | (?P<nul>\x00)
  | (?P<remark>\#[^\n]*)
  | (?P<splice>\\\n)
    """,
    re.VERBOSE | re.DOTALL,
)


def normalise_source(source: str, language: str) -> str:
    """Source text without what cannot change the program, so that equal programs get equal ids.

    For C and CUDA: comments become a blank (the kernel header is a comment; what it declares is hashed as data), lines
    that end in a backslash are joined, and runs of blanks fold. For Python (`triton`, `torch`): line endings, trailing
    blanks and blank lines only, since indentation is syntax. Literals stay as they are, those of many lines included.
    """
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    c_like = language in ("c", "cuda")
    literals: list[str] = []

    def without(match: re.Match[str]) -> str:
        kind = match.lastgroup
        if c_like and kind in ("comment", "splice"):
            return " " if kind == "comment" else ""
        if kind == "include":
            directive, bracket, header = match[0].partition("<")
            literals.append(bracket + header)
            return directive + "\x00"
        literals.append(match[0].rstrip() if kind == "remark" else match[0])
        return "\x00"

    text = (_C_TOKEN if c_like else _PYTHON_TOKEN).sub(without, source)
    if c_like:
        lines = (re.sub(r"[ \t\f\v]+", " ", line).strip(" ") for line in text.split("\n"))
    else:
        lines = (line.rstrip(" \t\f\v") for line in text.split("\n"))
    text = "\n".join(line for line in lines if line)
    kept = iter(literals)
    return re.sub("\x00", lambda _: next(kept), text)


def content_id(prefix: str, content: Mapping[str, Any]) -> str:
    """`prefix` + `_` + the first 20 hex digits of the SHA-256 of the content as canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{prefix}_{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def new_id(prefix: str) -> str:
    """`prefix` + `_` + 20 random hex digits, for rows that record an event (measurement, request)."""
    return f"{prefix}_{secrets.token_hex(10)}"
