"""Forecasts and the decisions that followed from them."""

from __future__ import annotations

from .database import Store, Value
from .models import Decision, Forecast
from .rows import Table

TABLE = Table(
    "forecasts",
    Forecast,
    (
        "kernel_id",
        "baseline_id",
        "task_id",
        "device",
        "forecaster",
        "p_correct",
        "log2_median",
        "log2_p10",
        "log2_p90",
        "cost_usd",
        "tokens",
    ),
)
DECISIONS = Table("decisions", Decision, ("forecast_id", "kind", "reason", "audit_probability", "audited"))

_NEWEST_FIRST = "created_at DESC, seq DESC"


def save(store: Store, forecast: Forecast, decision: Decision | None = None) -> None:
    """Save a forecast, and with it the decision it led to. Its task and kernels must be in the store already.

    Raises StoreError for an id that is taken.
    """
    with store.write() as db:
        TABLE.insert(db, forecast)
        if decision is not None:
            DECISIONS.insert(db, decision)


def get(store: Store, forecast_id: str) -> Forecast | None:
    """The forecast with that id, or None."""
    return TABLE.get(store, forecast_id)


def find(
    store: Store,
    *,
    kernel: str | None = None,
    baseline: str | None = None,
    task_id: str | None = None,
    device: str | None = None,
    forecaster: str | None = None,
    since: str | None = None,
    limit: int | None = 50,
) -> list[Forecast]:
    """Forecasts that meet every filter given (ids of kernels and task, UTC text), newest first; limit None: all."""
    where: list[str] = []
    parameters: list[Value] = []
    for condition, value in (
        ("kernel_id = ?", kernel),
        ("baseline_id = ?", baseline),
        ("task_id = ?", task_id),
        ("device = ?", device),
        ("forecaster = ?", forecaster),
        ("created_at >= ?", since),
    ):
        if value is not None:
            where.append(condition)
            parameters.append(value)
    return TABLE.find(store, where, parameters, order=_NEWEST_FIRST, limit=limit)


def save_decision(store: Store, decision: Decision) -> None:
    """Save a decision on a forecast that is in the store already. Raises StoreError for an id that is taken."""
    with store.write() as db:
        DECISIONS.insert(db, decision)


def get_decision(store: Store, decision_id: str) -> Decision | None:
    """The decision with that id, or None."""
    return DECISIONS.get(store, decision_id)


def decisions(store: Store, forecast_id: str | None = None, *, limit: int | None = 50) -> list[Decision]:
    """Decisions, on one forecast if given, newest first; limit None: all."""
    where, parameters = ([], []) if forecast_id is None else (["forecast_id = ?"], [forecast_id])
    return DECISIONS.find(store, where, parameters, order=_NEWEST_FIRST, limit=limit)
