"""What every language's compiler returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...store.models import Facts


@dataclass(frozen=True)
class Build:
    """A compiled kernel, or the reason there is none.

    binary: the artefact in the content-addressed cache (a cubin, a shared object), None where `facts.ok` is false.
    symbols: for each launch entry as the header writes it, the symbol to load from the binary.
    log: what the compiler printed, in the user's file name and line numbers.
    """

    binary: Path | None
    facts: Facts
    symbols: dict[str, str] = field(default_factory=dict)
    log: str = ""

    @property
    def ok(self) -> bool:
        return self.facts.ok
