"""The best kernel as a file that says itself what it is: its tunables' values come first in the header."""

from __future__ import annotations

import re

from ...store.models import Kernel
from .generators.sources import text_of


def best_as_file(kernel: Kernel) -> str:
    """The kernel's source; where its header declares tunables, the kernel's own values are made their defaults."""
    text = text_of(kernel)
    header = text.header
    for name, value in kernel.tunables.items():
        pattern = re.compile(
            rf"^(?P<head>(?:#[ ])?[ \t]*{re.escape(name)}[ \t]*=[ \t]*\[)(?P<values>[^\]]*)\]", re.MULTILINE
        )

        def own_first(match: re.Match[str], value: int = value) -> str:
            others = [part.strip() for part in match["values"].split(",") if part.strip()]
            rest = [part for part in others if part != str(value)]
            return f"{match['head']}{', '.join([str(value), *rest])}]"

        header = pattern.sub(own_first, header)
    return header + text.code
