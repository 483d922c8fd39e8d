"""Telling a program from a kernel."""

from __future__ import annotations

from pathlib import Path

from ...store.errors import KforecastError
from ..header.block import find_header
from ..header.files import language_of_file, read_source
from ..header.tokens import tokens


def is_program(path: str) -> bool:
    """Whether a path names a C or CUDA file that has a `main()` and no kernel header. Never raises."""
    if "\n" in path or not path.endswith((".cu", ".c", ".cc", ".cpp", ".cxx")):
        return False
    try:
        source = read_source(Path(path))
        return find_header(source, language_of_file(Path(path))) is None and has_main(source)
    except KforecastError:
        return False


def has_main(source: str) -> bool:
    """Whether a C, C++ or CUDA source defines a function `main`."""
    depth = 0
    stream = [token for token in tokens(source) if token.kind not in ("comment", "directive")]
    for place, token in enumerate(stream):
        depth += (token.text == "{") - (token.text == "}")
        if (
            depth == 0
            and token.text == "main"
            and place
            and stream[place - 1].text in ("int", "void", "auto", "signed")
        ):
            return _defines([inner.text for inner in stream[place + 1 :]])
    return False


def _defines(words: list[str]) -> bool:
    """Whether `( … )` and then a body follows, rather than a `;`."""
    depth = 0
    for place, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0:
            following = words[place + 1 : place + 2]
            return word == ")" and following in (["{"], ["-"], ["->"], ["try"])
    return False
