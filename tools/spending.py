"""The budget for models: a ledger in the store, so that all processes of the user share one cap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from ..store import spend
from ..store.clock import utc_now
from ..store.database import Store
from ..store.spend import Cap
from ..surrogate.backends.spend import BudgetSpent


@dataclass(frozen=True)
class StoreLedger:
    """Reservations of a day's budget in the store at `path`; `who`: the backend that spends.

    The store is opened anew for each row: a ledger outlives the call that made it, and model calls take seconds.
    Forecasts, evaluations and searches of one UTC day count together. Both methods raise StoreError as a store does.
    """

    path: Path
    who: str
    cap: Cap

    def reserve(self, usd: float, tokens: int = 0) -> str:
        """As the protocol says."""
        with Store.open(self.path) as store:
            made = spend.reserve(store, today(), self.who, usd=usd, tokens=tokens, cap=self.cap)
        if isinstance(made, str):
            return made
        left = math.inf if self.cap.usd is None else self.cap.usd - made.usd
        raise BudgetSpent(usd, left, tokens, None if self.cap.tokens is None else self.cap.tokens - made.tokens)

    def settle(self, reservation: str, usd: float, tokens: int = 0) -> None:
        """As the protocol says."""
        with Store.open(self.path) as store:
            spend.settle(store, reservation, usd=usd, tokens=tokens)


def today() -> str:
    """The name of today's budget."""
    return f"models {utc_now()[:10]}"
