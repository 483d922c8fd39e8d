"""Small figures in text: curves, gauges, marks of states, ages. Each says in a glyph what its colour says, too."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ...store.searches import ENDED
from ...tools.words import interval_text, ratio_text
from .lines import Line, Span

_STEPS = "▁▂▃▄▅▆▇"
"""Without the full block, which would touch the line above."""

STATES: dict[str, tuple[str, str]] = {
    "working": ("●", "busy"),
    "input_required": ("?", "warn"),
    "paused": ("‖", "warn"),
    "stopping": ("◌", "warn"),
    "completed": ("✓", "good"),
    "failed": ("✗", "bad"),
    "cancelled": ("■", "dim"),
}
"""States of searches: glyph and role."""
_WORDS = {"input_required": "asks"}


def state_line(state: str, *, orphaned: bool = False) -> Line:
    """A search's state: `● working`; `! no worker` for one that nobody works on although somebody should."""
    if orphaned:
        return (("! no worker", "bad"),)
    glyph, role = STATES.get(state, ("·", ""))
    return (f"{glyph} ", role), (_WORDS.get(state, state), "dim" if state in ENDED else role)


def sparkline(values: Sequence[float], *, top: float | None = None) -> str:
    """Values of 0 and more as a line of bars, one a value; the highest is full."""
    highest = max([*values, 1e-9]) if top is None else max(top, 1e-9)
    last = len(_STEPS) - 1
    return "".join(_STEPS[max(0, min(last, round(last * value / highest)))] for value in values)


def gauge(fraction: float, width: int) -> tuple[Span, Span]:
    """A bar that is full at 1: the filled part and the rest."""
    filled = round(max(0.0, min(1.0, fraction)) * width)
    return ("━" * filled, "bar" if fraction < 0.9 else "warn"), ("─" * (width - filled), "faint")


def ratio(log2: float | None) -> str:
    """S of log2 S: `1.83`, `-` for None."""
    return ratio_text(None if log2 is None else 2.0**log2)


def ratio_span(log2: float | None, low: float | None = None, high: float | None = None) -> Span:
    """A measured S: green where the interval is above 1, red where below, plain where it holds 1."""
    if log2 is None:
        return "-", "faint"
    lower, upper = (log2 if low is None else low), (log2 if high is None else high)
    return ratio(log2), "good" if lower > 0 else "bad" if upper < 0 else ""


def interval(low: float | None, high: float | None) -> str:
    """Both ends of an interval of log2 S, as S."""
    return interval_text(*(None if end is None else 2.0**end for end in (low, high)))


def percent(share: float | None) -> str:
    """`62%`, `-` for None."""
    return "-" if share is None else f"{100 * share:.0f}%"


def ago(moment: str | None) -> str:
    """How long ago a UTC moment was: `12s`, `5m`, `3h`, `4d`."""
    if not moment:
        return ""
    seconds = max(0.0, (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())
    for limit, scale, unit in ((90, 1, "s"), (5400, 60, "m"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / scale:.0f}{unit}"
    return f"{seconds / 86_400:.0f}d"


def who(client: str) -> str:
    """A client for people: `cli`, `mcp 4711`; names that are none of ours stay."""
    parts = client.split(":")
    if len(parts) == 3 and parts[1].isdecimal():
        return f"{parts[0]} {parts[1]}"
    return client


def short(identity: str) -> str:
    """An id as tables show it."""
    return identity[:10]


LIMITS = {
    "gpu_seconds": ("gpu", "GPU seconds"),
    "measurements": ("meas", "measurements"),
    "usd": ("usd", "US dollars"),
    "tokens": ("tok", "tokens"),
    "wall_s": ("time", "seconds"),
    "candidates": ("cand", "candidates"),
}
"""What budgets limit: short and whole."""


def amount(value: float) -> str:
    """An amount of a budget: `40`, `1.2k`, `3.76`."""
    if value >= 10_000:
        return f"{value / 1000:.0f}k"
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def tightest(spent: dict[str, float], limits: dict[str, float]) -> tuple[str, float] | None:
    """The limit that will be reached first as things stand, and how much of it is spent; None without a budget."""
    shares = {name: spent.get(name, 0.0) / limit for name, limit in limits.items() if limit > 0}
    if not shares:
        return None
    name = max(shares, key=lambda one: shares[one])
    return name, shares[name]


def clock(seconds: float) -> str:
    """The search's clock: `12.3s`, `4m05`, `2h10`."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02d}" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}"
