"""What was spent on models: a row a call, reserved before it and settled after it, shared by all processes.

A reservation counts in full until it is settled. One whose process died stays: the call may have been charged.
"""

from __future__ import annotations

from dataclasses import dataclass

from .clock import utc_now
from .database import Store
from .errors import StoreError
from .identity import new_id


@dataclass(frozen=True)
class Cap:
    """The most that a budget may spend: US dollars and tokens; None: any amount."""

    usd: float | None = None
    tokens: int | None = None


@dataclass(frozen=True)
class Spent:
    """Sums over a budget, reservations included. calls: how many rows; open: how many of them are not settled."""

    usd: float
    tokens: int
    calls: int
    open: int


def reserve(store: Store, budget: str, who: str, *, usd: float, tokens: int, cap: Cap) -> str | Spent:
    """Set aside what one call may cost, in one immediate transaction; the reservation's id.

    budget: the name that those who share the cap agree on; who: the backend's name. usd, tokens: at least 0.
    Where the cap cannot take it, nothing is written and what is spent comes back instead.
    """
    with store.write() as db:
        used = spent(store, budget)
        if not _fits(used.usd, usd, cap.usd) or not _fits(used.tokens, tokens, cap.tokens):
            return used
        name = new_id("x")
        db.execute(
            "INSERT INTO spend (id, budget, who, state, usd, tokens, created_at) VALUES (?, ?, ?, 'reserved', ?, ?, ?)",
            (name, budget, who, usd, tokens, utc_now()),
        )
        return name


def settle(store: Store, reservation: str, *, usd: float, tokens: int) -> None:
    """Put what was spent in the place of a reservation. Raises StoreError for one that is not open."""
    with store.write() as db:
        changed = db.execute(
            "UPDATE spend SET state = 'settled', usd = ?, tokens = ?, settled_at = ? "
            "WHERE id = ? AND state = 'reserved'",
            (usd, tokens, utc_now(), reservation),
        ).rowcount
        if changed != 1:
            raise StoreError(
                "There is no such open reservation", value=reservation, next_step="Settle each reservation once."
            )


def spent(store: Store, budget: str) -> Spent:
    """What a budget has spent and reserved so far."""
    row = store.read(
        "SELECT coalesce(sum(usd), 0.0), coalesce(sum(tokens), 0), count(*), "
        "coalesce(sum(state = 'reserved'), 0) FROM spend WHERE budget = ?",
        (budget,),
    )[0]
    return Spent(*row)


def _fits(used: float, more: float, cap: float | None) -> bool:
    """Whether the cap takes more; a budget that is used up takes not even what costs nothing."""
    return cap is None or (used < cap and used + more <= cap)
