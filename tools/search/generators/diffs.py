"""Unified diffs as models write them: hunks are found by their text, since their line numbers are often wrong."""

from __future__ import annotations


class DiffError(Exception):
    """A diff that does not fit its file."""


def patched(source: str, diff: str) -> str:
    """The source with a diff applied. Raises DiffError where a hunk's lines are not in the file, or twice."""
    lines = source.splitlines()
    hunks = _hunks(diff)
    if not hunks:
        raise DiffError("it has no hunks")
    for hunk in hunks:
        old = [line[1:] for line in hunk if line[:1] in (" ", "-")]
        new = [line[1:] for line in hunk if line[:1] in (" ", "+")]
        lines = _replaced(lines, old, new)
    return "\n".join(lines) + "\n"


def _hunks(diff: str) -> list[list[str]]:
    hunks: list[list[str]] = []
    for line in diff.splitlines():
        if line.startswith("@@"):
            hunks.append([])
        elif hunks and line[:1] in (" ", "+", "-"):
            hunks[-1].append(line)
        elif hunks and not line:
            hunks[-1].append(" ")
    return [_trimmed(hunk) for hunk in hunks if any(line[0] in "+-" for line in hunk)]


def _trimmed(hunk: list[str]) -> list[str]:
    """Without blank context lines at the end, which models add."""
    while hunk and not hunk[-1].strip():
        hunk = hunk[:-1]
    return hunk


def _replaced(lines: list[str], old: list[str], new: list[str]) -> list[str]:
    if not old:
        raise DiffError("a hunk has no line of the file to go by")
    bare = [line.strip() for line in lines]
    wanted = [line.strip() for line in old]
    places = [at for at in range(len(lines) - len(old) + 1) if bare[at : at + len(old)] == wanted]
    if len(places) != 1:
        raise DiffError(f"`{old[0].strip()}` and what follows stands {len(places)} times in the file")
    at = places[0]
    return [*lines[:at], *new, *lines[at + len(old) :]]
