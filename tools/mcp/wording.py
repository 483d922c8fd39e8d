"""One text for people and another for agents: a next step that names a command names the tool that does the same.

Errors and answers are worded once, for the command line. What no tool does (`kforecast doctor`, `gc`, `mcp`, ...)
stays a command, which an agent with a shell can run or pass on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_TOLD_IN = frozenset(("summary", "next", "reason", "why", "error", "notes"))
"""Fields that hold our words. Sources, diagnostics and ideas are somebody else's."""

_ALL = "get_status (without an id)"
_ARGUMENTS = "alpha|baseline|detail|device|effort|generator|model|policy|task"
_Replacement = str | Callable[[re.Match[str]], str]


def _new_search(match: re.Match[str]) -> str:
    first = match.string[: match.start()].endswith(". ") or match.start() == 0
    begin = "Begin" if first else "begin"
    return f"{begin} a new search from its best kernel, or let a person go on with this one: {match[1]}"


_REWORDED: tuple[tuple[re.Pattern[str], _Replacement], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"To agree once and for all: (`[^`]*--yes`)", r"Only a person may agree, once and for all: \1"),
        (r"(`kforecast search resume [^`]*`)(?: first,[^.]*| goes on)?", _new_search),
        (r"`kforecast search report [^`]*`", 'get_status(id=kernel_id, detail="full")'),
        (r"`kforecast (?:status|search list)`", _ALL),
        (r"`kforecast search stop[^`]*`", "stop"),
        (r"`kforecast measure[^`]*`", "measure_kernel"),
        (r"`kforecast (?:facts|forecast(?![^`]*--yes))[^`]*`", "forecast_kernel"),
        (r"Upgrade kforecast, or", "It was upgraded while this server ran: have the client restart the server. Or"),
        (r"Try `--no-broker` to see the failure directly; ", ""),
        (r",? or (?:add --override to replace the header's|--own on the command line)", ""),
        (rf"(`?)--({_ARGUMENTS})[ =]([^\s`,;]*[^\s`,;.])\1", r'\2="\3"'),
    )
)


def for_agents(text: str) -> str:
    """The text with commands and options replaced by tools and their arguments, where there are such."""
    for pattern, replacement in _REWORDED:
        text = pattern.sub(replacement, text)
    return text


def reworded(answer: Any) -> Any:
    """An answer, plain data, with `for_agents` done to all that is in our words."""
    if isinstance(answer, dict):
        return {
            name: _told(inner) if name in _TOLD_IN and isinstance(inner, str | list | tuple) else reworded(inner)
            for name, inner in answer.items()
        }
    if isinstance(answer, list | tuple):
        return [reworded(inner) for inner in answer]
    return answer


def _told(words: Any) -> Any:
    if isinstance(words, str):
        return for_agents(words)
    return [for_agents(one) if isinstance(one, str) else reworded(one) for one in words]
