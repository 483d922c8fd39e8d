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
    (?P<raw>R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)")
  | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
  | (?P<comment>//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))
  """,
    re.VERBOSE | re.DOTALL,
)


def normalise_source(source: str, language: str) -> str:
    """Source text without what cannot change the program, so that equal programs get equal ids.

    For C and CUDA: comments become a blank (the kernel header is a comment; what it declares is hashed as data) and runs of
    blanks inside a line fold, outside string literals. For Python (`triton`, `torch`): only line endings, trailing blanks
    and blank lines, since indentation is syntax.
    """
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    if language in ("c", "cuda"):
        parts: list[str] = []
        end = 0
        for match in _C_TOKEN.finditer(source):
            parts.append(re.sub(r"[ \t\f\v]+", " ", source[end : match.start()]))
            parts.append(" " if match.lastgroup == "comment" else match.group())
            end = match.end()
        parts.append(re.sub(r"[ \t\f\v]+", " ", source[end:]))
        source = "".join(parts)
    lines = (line.rstrip() if language not in ("c", "cuda") else line.strip() for line in source.split("\n"))
    return "\n".join(line for line in lines if line)


def content_id(prefix: str, content: Mapping[str, Any]) -> str:
    """`prefix` + `_` + the first 20 hex digits of the SHA-256 of the content as canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{prefix}_{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def new_id(prefix: str) -> str:
    """`prefix` + `_` + 20 random hex digits, for rows that record an event (measurement, request)."""
    return f"{prefix}_{secrets.token_hex(10)}"
