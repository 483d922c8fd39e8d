"""Nodes in order of a score, best first, earlier ones before later ones of the same."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ranked:
    """Pairs (-score, index), ascending: the best first. A node stands in it at most once."""

    entries: list[tuple[float, int]] = field(default_factory=list)

    def add(self, score: float, index: int) -> None:
        """Put a node in."""
        insort(self.entries, (-score, index))

    def discard(self, score: float, index: int) -> None:
        """Take a node out that stands under this score; no error where it does not."""
        entry = (-score, index)
        place = bisect_left(self.entries, entry)
        if place < len(self.entries) and self.entries[place] == entry:
            del self.entries[place]

    def best(self, count: int) -> list[int]:
        """The indices of the first `count` nodes."""
        return [index for _, index in self.entries[:count]]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[int]:
        return (index for _, index in self.entries)
