"""The nearest right name, for errors about a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest_names(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Up to `limit` of the known names that look most like `name`, best first; may be empty."""
    folded = {candidate.lower(): candidate for candidate in known}
    return [folded[match] for match in difflib.get_close_matches(name.lower(), folded, n=limit, cutoff=0.4)]


def nearest_text(name: str, known: Iterable[str]) -> str:
    """A next step: the nearest of the known names, or all of them where none is near."""
    known = sorted(known)
    near = nearest_names(name, known)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"It is one of: {', '.join(known)}." if known else "There is none."
