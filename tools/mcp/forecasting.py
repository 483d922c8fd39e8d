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
    """Several forecasts as one answer; the brief, and whatever else is the same of all, stands on top."""
    told = [{"error": str(one)} if isinstance(one, KforecastError) else _one_of_several(one) for one in results]
    shared = _shared([one for one in told if "error" not in one])
    decided = Counter("not readable" if isinstance(one, KforecastError) else one.decision for one in results)
    counted = ", ".join(f"{count} {kind}" for kind, count in decided.most_common())
    briefs = [one.brief for one in results if not isinstance(one, KforecastError) and one.brief is not None]
    step = "Call measure_kernel for those that say measure, fix those with an error, skip those that say drop."
    backends = {one.backend for one in results if not isinstance(one, KforecastError)}
    if decided["measure"] > 1 and not any(name.startswith("agent:") for name in backends):
        step += (
            ' To choose among them forecast them yourself: ask with detail="brief" for what is known, then with '
            "own=[...], one a candidate."
        )
    return {
        "summary": f"{len(results)} candidates: {counted}.",
        **shared,
        "results": told,
        "brief": "\n\n".join(briefs) or None,
        "next": step,
    }


def _one_of_several(one: ForecastResult) -> dict[str, Any]:
    """Without the step that follows from its decision anyway, and without facts that its compiler does not tell."""
    plain = one.model_dump(mode="json", exclude={"brief", "next"} if one.decision == "measure" else {"brief"})
    if plain["compile"] is not None:
        plain["compile"] = {name: value for name, value in plain["compile"].items() if value is not None}
    return plain


_OFTEN_THE_SAME = ("baseline_id", "baseline_chosen_because", "reason", "alpha", "calibration", "backend", "cost_usd")


def _shared(told: list[dict[str, Any]]) -> dict[str, Any]:
    """What is the same of all, taken out of each."""
    if len(told) < 2:
        return {}
    names = [name for name in _OFTEN_THE_SAME if all(one[name] == told[0][name] for one in told)]
    shared = {name: told[0][name] for name in names if name != "cost_usd" or not told[0][name]}
    for one in told:
        for name in shared:
            del one[name]
    return shared
