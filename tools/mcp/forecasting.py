"""`forecast_kernel`: one candidate or several, by the built-in forecaster or with the caller's own probabilities."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult

from ...store.database import Store
from ...store.errors import InputError, KforecastError
from .answers import reply
from .arguments import Own
from .held import open_store
from .roots import Roots
from .threads import in_thread

if TYPE_CHECKING:
    from ..forecast import Detail
    from ..forecast_results import ForecastResult


async def forecast(
    roots: Roots,
    candidate: str | list[str],
    baseline: str | None,
    task: str | None,
    device: str | None,
    own: Own | list[Own] | None,
    alpha: float | None,
    detail: Detail,
) -> CallToolResult:
    """See `descriptions.FORECAST`."""
    return reply(await in_thread(_forecast, roots, candidate, baseline, task, device, own, alpha, detail))


def _forecast(
    roots: Roots,
    candidate: str | list[str],
    baseline: str | None,
    task: str | None,
    device: str | None,
    own: Own | list[Own] | None,
    alpha: float | None,
    detail: Detail,
) -> dict[str, Any]:
    single = isinstance(candidate, str)
    named = [candidate] if isinstance(candidate, str) else candidate
    owned = [own] if isinstance(own, Own) else own
    if owned is not None and len(owned) != len(named):
        step = "Give one forecast a candidate, in their order."
        raise InputError(f"{len(named)} candidates need as many own forecasts", value=len(owned), next_step=step)
    with open_store() as store:
        results = _results(store, roots, named, baseline, task, device, owned, alpha, detail)
    if not single:
        return _together(results)
    (only,) = results
    if isinstance(only, KforecastError):
        raise only
    return only.model_dump(mode="json")


def _results(
    store: Store,
    roots: Roots,
    named: list[str],
    baseline: str | None,
    task: str | None,
    device: str | None,
    owned: list[Own] | None,
    alpha: float | None,
    detail: Detail,
) -> list[ForecastResult | KforecastError]:
    """One a candidate, in their order: its forecast or what is wrong with it."""
    from ..config import load_config
    from ..forecast import forecast_many
    from .naming import admitted, admitted_baseline, task_of

    results: dict[int, ForecastResult | KforecastError] = {}
    ids: dict[int, str] = {}
    for index, one in enumerate(named):
        try:
            ids[index] = admitted(store, roots, one, task, task_of(store, baseline))
        except InputError as error:
            results[index] = error
    if ids:
        forecasts = forecast_many(
            list(ids.values()),
            baseline=admitted_baseline(store, roots, baseline, next(iter(ids.values()))),
            device=device or load_config().device,
            own=None if owned is None else [owned[index].model_dump() for index in ids],
            alpha=alpha,
            detail=detail,
            store=store,
        )
        results |= dict(zip(ids, forecasts, strict=True))
    return [results[index] for index in range(len(named))]


def _together(results: list[ForecastResult | KforecastError]) -> dict[str, Any]:
    """Several forecasts as one answer; the brief, which tells of all, stands on top."""
    told = [
        {"error": str(one)} if isinstance(one, KforecastError) else one.model_dump(mode="json", exclude={"brief"})
        for one in results
    ]
    decided = Counter("not readable" if isinstance(one, KforecastError) else one.decision for one in results)
    counted = ", ".join(f"{count} {kind}" for kind, count in decided.most_common())
    briefs = [one.brief for one in results if not isinstance(one, KforecastError) and one.brief is not None]
    step = "Call measure_kernel for those that say measure, fix those with an error, skip those that say drop."
    if decided["measure"] > 1 and not any(one["backend"].startswith("agent:") for one in told if "backend" in one):
        step += (
            ' To choose among them forecast them yourself: ask with detail="brief" for what is known, then with '
            "own=[...], one a candidate."
        )
    return {
        "summary": f"{len(results)} candidates: {counted}.",
        "results": told,
        "brief": "\n\n".join(briefs) or None,
        "next": step,
    }
