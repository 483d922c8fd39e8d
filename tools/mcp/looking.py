"""`get_status` and `stop`: anything by its id, and the whole at a glance."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import anyio
from mcp_types import CallToolResult

from ...store import forecasts, kernels, measurements, requests, searches
from ...store.database import Store
from ...store.errors import InputError
from ...store.faults import StoreMissing, StoreOutdated
from ...store.models import Measurement, Request
from ..results import MeasureResult
from ..sources import copy_of
from ..status import Status, look_up, status
from .answers import concise, reply
from .measuring import ENDED, still_working, whereabouts
from .progress import Progress
from .threads import in_thread

_LOOK_S = 0.1
_SEARCHES = 10
_SHOWN = 5


async def look(
    identity: str | None, progress: Progress, cursor: int | None, detail: Literal["concise", "full"]
) -> CallToolResult:
    """Whatever has this id, waiting for it as long as the client wants to; see `descriptions.STATUS`."""
    await in_thread(_bring_up_to_date)
    if identity is None:
        return reply(await in_thread(_overview))
    if identity.startswith("s_"):
        from .searching import look_at_search

        return await look_at_search(identity, progress, cursor, detail)
    if identity.startswith("k_"):
        return reply(await in_thread(_kernel, identity, detail))
    if identity.startswith("f_"):
        return reply(await in_thread(_forecast, identity))
    return reply(await _measurement(identity, progress, detail))


def _bring_up_to_date() -> None:
    """Make a store that an older kforecast wrote readable; one that is not there yet stays so."""
    with suppress(StoreMissing):
        try:
            Store.open_readonly().close()
        except StoreOutdated:
            Store.open().close()


async def _measurement(identity: str, progress: Progress, detail: str) -> dict[str, Any]:
    with await in_thread(Store.open_readonly) as store:
        row = requests.get(store, identity)
        while row is not None and row.state not in ENDED and progress.left_s:
            await progress.say(lambda row=row: whereabouts(store, row))  # type: ignore[misc]
            await anyio.sleep(min(_LOOK_S, progress.pause_s))
            row = requests.get(store, identity)
        if row is not None and row.state not in ENDED:
            return concise(await in_thread(_working, store, row))
    result = await in_thread(_ended, identity)
    return result.model_dump(mode="json") if detail == "full" else concise(result)


def _working(store: Store, row: Request) -> MeasureResult:
    name, kernel_id = _of(store, row)
    return still_working(store, row, name, kernel_id)


def _ended(identity: str) -> MeasureResult:
    """As it was answered; of a request without a measurement also which kernel it was about."""
    result = look_up(identity)
    if result.kernel_id is not None or result.request_id is None:
        return result
    with Store.open_readonly() as store:
        row = requests.get(store, result.request_id)
        name, kernel_id = (None, None) if row is None else _of(store, row)
    return result.model_copy(update={"kernel_id": kernel_id, "name": name})


def _of(store: Store, row: Request) -> tuple[str, str | None]:
    """The name and the id of the kernel that a request is about."""
    kernel = kernels.get(store, row.payload.get("kernel_id", ""))
    return (row.id, None) if kernel is None else (Path(kernel.name).name, kernel.id)


def _kernel(identity: str, detail: str) -> dict[str, Any]:
    from ...store import tasks

    with Store.open_readonly() as store:
        kernel = kernels.resolve(store, identity)
        task = tasks.get(store, kernel.task_id)
        measured = measurements.find(store, kernel=kernel.id, limit=_SHOWN)
    about: dict[str, Any] = {
        "summary": f"{kernel.name}: a {kernel.language} kernel of {task.name if task else kernel.task_id}, "
        f"{len(kernel.source)} characters.",
        "kernel_id": kernel.id,
        "name": kernel.name,
        "language": kernel.language,
        "task": None if task is None else task.name,
        "tunables": kernel.tunables,
        "options": kernel.options,
        "measurements": [_in_short(one) for one in measured],
        "source_path": str(copy_of(kernel)),
        "next": 'Its source is at source_path, a copy, and comes with detail="full"; to compare with it give its id as '
        "a baseline.",
    }
    if detail == "full":
        about |= {
            "source": kernel.source,
            "includes": kernel.includes,
            "next": "To improve it write the changed source whole, header included; to compare with it give its id as "
            "a baseline.",
        }
    return about


def _forecast(identity: str) -> dict[str, Any]:
    with Store.open_readonly() as store:
        found = forecasts.get(store, identity)
        if found is None:
            step = "Ids of forecasts stand in the answers of forecast_kernel."
            raise InputError("there is no forecast with this id", value=identity, next_step=step)
        decided = forecasts.decisions(store, identity, limit=1)
        since = measurements.find(
            store, kernel=found.kernel_id, baseline=found.baseline_id, device=found.device, since=found.created_at
        )
    decision = decided[0].kind if decided else None
    measured = since[-1].id if since else None
    step = f"Read {measured}: it was measured since." if measured else "It was not measured since."
    return {
        "summary": f"{found.forecaster} gave P(correct) = {found.p_correct:.0%} and S = "
        f"{2.0**found.log2_median:.3g}, as it was given, before any calibration.",
        "forecast_id": found.id,
        "candidate_id": found.kernel_id,
        "baseline_id": found.baseline_id,
        "device": found.device,
        "backend": found.forecaster,
        "p_correct": found.p_correct,
        "p_bins": found.p_bins,
        "decision": decision,
        "reason": decided[0].reason if decided else None,
        "measurement_id": measured,
        "created_at": found.created_at,
        "next": step,
    }


def _in_short(measurement: Measurement) -> dict[str, Any]:
    return {
        "measurement_id": measurement.id,
        "baseline_id": measurement.baseline_id,
        "device": measurement.device,
        "verdict": measurement.verdict,
        "comparison": measurement.comparison,
        "speedup": measurement.speedup,
        "time_us": measurement.time_us,
        "quarantined": measurement.quarantine is not None,
    }


def _overview() -> dict[str, Any]:
    from ...bench.tasks.builtin import builtin_names

    now = status()
    found = _searches(now)
    going = sum(1 for one in found if one["state"] in ("working", "input_required", "stopping"))
    held = ", ".join(sorted({one.device or "a device" for one in now.holders})) or "no device"
    return {
        "summary": f"{len(now.measurements)} last measurements, {len(now.unfinished)} requests unfinished, {going} "
        f"searches under way; {held} in use.",
        **now.model_dump(mode="json", exclude={"store_exists"}),
        "searches": found,
        "tasks": builtin_names(),
        "next": "Ask for one of the ids for more; measure_kernel and search begin something new.",
    }


def _searches(now: Status) -> list[dict[str, Any]]:
    if not now.store_exists:
        return []
    with Store.open_readonly() as store:
        return [
            {
                "search_id": one.id,
                "state": one.state,
                "task": one.task_name,
                "device": one.device,
                "generator": one.generator,
                "best_kernel_id": one.best_id,
                "best_speedup": None if one.best_log2 is None else 2.0**one.best_log2,
                "updated_at": one.updated_at,
            }
            for one in searches.recent(store, _SEARCHES)
        ]


async def stop(identity: str) -> CallToolResult:
    """End a request or a search; see `descriptions.STOP`."""
    if identity.startswith("s_"):
        from .searching import stop_search

        return await stop_search(identity)
    return reply(await in_thread(_stop_request, identity))


def _stop_request(identity: str) -> dict[str, Any]:
    from ...bench.broker.client import cancel

    if identity.startswith("m_"):
        return concise(_ended(identity))  # it has ended: nothing to stop, and no error
    with Store.open() as store:
        row = requests.get(store, identity)
        if row is None:
            raise InputError(
                "there is nothing of this id that could be stopped",
                value=identity,
                next_step="Give a request r_... or a search s_...; get_status without an id lists them.",
            )
        cancel(store, row)
    return concise(_ended(identity))
