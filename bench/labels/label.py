"""What a label is: a finding about a kernel, in words that accuse nobody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

POLICY = ("library", "fallback", "low-precision", "specialised", "stateful", "fast-math")
"""Findings that say which rules a kernel would pass elsewhere: they go into a measurement's labels. All others are
only told."""


@dataclass(frozen=True)
class Label:
    """One finding. `line`: where in the source, from 1; None: in the compiled code, or nowhere in particular.

    Names besides POLICY's: `streams`, `threads`, `graphs`, `run-time-code`, `assembly`, `foreign-include`.
    """

    name: str
    finding: str
    line: int | None = None

    @property
    def policy(self) -> bool:
        return self.name in POLICY


def policy_names(found: Iterable[Label]) -> tuple[str, ...]:
    """The policy labels among the findings, each once, in POLICY's order: what a measurement's `labels` gets."""
    names = {label.name for label in found}
    return tuple(name for name in POLICY if name in names)


def in_order(found: Iterable[Label]) -> tuple[Label, ...]:
    """Policy first, then by line; each name and line once."""
    first: dict[tuple[str, int | None, str], Label] = {}
    for label in found:
        first.setdefault((label.name, label.line, label.finding if label.line is None else ""), label)
    rank = {name: place for place, name in enumerate(POLICY)}
    return tuple(
        sorted(first.values(), key=lambda label: (rank.get(label.name, len(POLICY)), label.name, label.line or 0))
    )
