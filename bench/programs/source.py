"""Telling a program from a kernel."""

from __future__ import annotations

from ..header.tokens import tokens


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
