"""A cap on money and tokens that holds across processes: what a call may cost is reserved before, and settled after.

The ledger itself is the caller's (a table of the store; here only its contract and one for a single process).
"""

from __future__ import annotations

import threading
from typing import Protocol

from .protocol import ForecasterError


class Ledger(Protocol):
    """Reservations of one budget. Both methods must be atomic among all who share it."""

    def reserve(self, usd: float, tokens: int = 0) -> str:
        """Set aside up to `usd` and `tokens`, or raise BudgetSpent; returns the reservation's id."""
        ...

    def settle(self, reservation: str, usd: float, tokens: int = 0) -> None:
        """Replace a reservation by what was spent."""
        ...


class BudgetSpent(ForecasterError):
    """The budget cannot take the next call."""

    def __init__(self, needed: float, left: float, tokens: int = 0, tokens_left: int | None = None) -> None:
        said = f"it may cost {needed:.6f} USD, {max(0.0, left):.6f} USD are left"
        if tokens_left is not None:
            said += f"; it may take {tokens} tokens, {max(0, tokens_left)} are left"
        super().__init__(
            "The budget cannot take the next call to the model",
            value=said,
            next_step="Raise the budget, or use the learned forecaster or your own probabilities.",
        )


class ProcessLedger:
    """A ledger for one process, with a cap in US dollars; None caps nothing and only counts."""

    def __init__(self, cap: float | None = None) -> None:
        self._cap = cap
        self._lock = threading.Lock()
        self._reserved: dict[str, float] = {}
        self._next = 0
        self.spent = 0.0
        self.tokens = 0

    def reserve(self, usd: float, tokens: int = 0) -> str:
        """As the protocol says."""
        with self._lock:
            left = float("inf") if self._cap is None else self._cap - self.spent - sum(self._reserved.values())
            if usd > left or left <= 0:
                raise BudgetSpent(usd, left, tokens)
            self._next += 1
            name = f"r_{self._next}"
            self._reserved[name] = usd
            return name

    def settle(self, reservation: str, usd: float, tokens: int = 0) -> None:
        """As the protocol says."""
        with self._lock:
            del self._reserved[reservation]
            self.spent += usd
            self.tokens += tokens
