"""The budget for models in the store: reservations, caps, and what stays of a process that died."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kforecast.store import schema, spend
from kforecast.store.database import Store
from kforecast.store.errors import StoreError
from kforecast.store.identity import new_id
from kforecast.store.spend import Cap, Spent

DOLLAR = Cap(usd=1.0)


def reserved(store: Store, usd: float = 0.0, tokens: int = 0, cap: Cap = DOLLAR, budget: str = "b") -> str:
    made = spend.reserve(store, budget, "litellm:m", usd=usd, tokens=tokens, cap=cap)
    assert isinstance(made, str)
    return made


def test_a_reservation_counts_until_it_is_settled(store: Store) -> None:
    first = reserved(store, 0.75, 10)
    assert spend.spent(store, "b") == Spent(0.75, 10, 1, 1)
    assert spend.reserve(store, "b", "m", usd=0.5, tokens=1, cap=DOLLAR) == Spent(0.75, 10, 1, 1)
    spend.settle(store, first, usd=0.25, tokens=3)
    assert spend.spent(store, "b") == Spent(0.25, 3, 1, 0)
    reserved(store, 0.5)
    assert spend.spent(store, "another") == Spent(0.0, 0, 0, 0)


def test_a_used_up_budget_takes_not_even_what_costs_nothing(store: Store) -> None:
    spend.settle(store, reserved(store, 1.0), usd=1.0, tokens=0)
    assert isinstance(spend.reserve(store, "b", "m", usd=0.0, tokens=0, cap=DOLLAR), Spent)
    reserved(store, 0.0, cap=Cap())
    assert isinstance(spend.reserve(store, "none", "m", usd=0.0, tokens=0, cap=Cap(usd=0.0)), Spent)


def test_tokens_are_capped_by_themselves(store: Store) -> None:
    cap = Cap(tokens=100)
    reserved(store, 50.0, 60, cap)
    assert isinstance(spend.reserve(store, "b", "m", usd=0.0, tokens=41, cap=cap), Spent)
    reserved(store, 0.0, 40, cap)


def test_settling_twice_or_what_was_never_reserved_is_an_error(store: Store) -> None:
    name = reserved(store, 0.5)
    spend.settle(store, name, usd=0.1, tokens=0)
    for wrong in (name, "x_none"):
        with pytest.raises(StoreError, match="no such open reservation"):
            spend.settle(store, wrong, usd=9.0, tokens=0)
    assert spend.spent(store, "b").usd == 0.1


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(0, 0.6), st.integers(0, 60), st.booleans()), max_size=12))
def test_no_order_of_calls_passes_the_cap(store: Store, calls: list[tuple[float, int, bool]]) -> None:
    budget, cap = new_id("b"), Cap(usd=1.0, tokens=100)
    for usd, tokens, settled in calls:
        made = spend.reserve(store, budget, "m", usd=usd, tokens=tokens, cap=cap)
        if isinstance(made, Spent):
            assert made.usd + usd > 1.0 or made.tokens + tokens > 100 or made.usd >= 1.0 or made.tokens >= 100
        elif settled:
            spend.settle(store, made, usd=usd / 2, tokens=tokens // 2)
        now = spend.spent(store, budget)
        assert now.usd <= 1.0 and now.tokens <= 100


def test_a_store_from_before_the_ledger_gets_one(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    db = sqlite3.connect(path, isolation_level=None)
    for script in schema.MIGRATIONS[:3]:
        db.executescript(script)
    db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    db.execute("PRAGMA user_version = 3")
    db.close()
    with Store.open(path) as store:
        reserved(store, 0.5)
        assert store.read("PRAGMA user_version")[0][0] == schema.LATEST >= 4
