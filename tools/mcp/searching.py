"""`search` and `search_propose`: a search lives in a process of its own, never in a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import anyio
from mcp_types import CallToolResult

from ...store import searches, tasks
from ...store.database import Store
from ...store.errors import InputError, KforecastError, UnsupportedError
from .answers import reply
from .arguments import Limits, Proposal
from .held import open_store
from .progress import Progress
from .roots import Roots
from .threads import in_thread

if TYPE_CHECKING:
    from ..search.results import SearchResult
    from ..search.use import ProposeResult

_LOOK_S = 0.2
_MOVING = ("working", "stopping")
_CANDIDATES = 50


@dataclass(frozen=True)
class Begin:
    """A search that a client wants."""

    seed: str
    task: str | None
    device: str | None
    generator: str
    policy: str
    budget: Limits
    model: str | None
    request_key: str | None


async def search(roots: Roots, wanted: Begin) -> CallToolResult:
    """Begin a search and answer at once; see `descriptions.SEARCH`."""
    return reply(_told(await in_thread(_start, roots, wanted)))


def _start(roots: Roots, wanted: Begin) -> SearchResult:
    from ..config import load_config
    from ..search.budget import Budget
    from ..search.replay import is_replay
    from ..search.use import start
    from .naming import admitted

    if is_replay(wanted.device or ""):
        step = "Leave the device out. A replay is begun by a person: `kforecast search run --device replay:FILE`."
        raise UnsupportedError("an agent cannot search in a replay", value=wanted.device, next_step=step)
    limits = wanted.budget.model_dump(exclude_none=True)
    if not limits:
        step = 'Give at least one, e.g. {"measurements": 30}.'
        raise InputError("a search needs a limit in its budget", value="none given", next_step=step)
    with open_store() as store:
        return start(
            admitted(store, roots, wanted.seed, wanted.task),
            budget=Budget.model_validate(limits),
            device=wanted.device or load_config().device,
            generator=wanted.generator,
            policy=wanted.policy,
            model=wanted.model,
            request_key=wanted.request_key,
            forecaster="best",
            store=store,
        )


async def propose(roots: Roots, search_id: str, candidates: Sequence[Proposal], progress: Progress) -> CallToolResult:
    """Hand over candidates and wait for the decisions while the client does; see `descriptions.PROPOSE`."""
    result, rejected = await in_thread(_propose, roots, search_id, candidates)
    accepted: list[dict[str, Any]] = result["accepted"]
    nodes = [one["node_id"] for one in accepted]
    with await in_thread(Store.open_readonly) as store:
        seen = -1
        while progress.left_s and not all(one["decision"] for one in accepted):
            row = searches.resolve(store, result["search_id"])
            if row.events != seen:
                seen = row.events
                accepted = await in_thread(_decided, store, row.id, nodes)
            if row.state in searches.ENDED:
                break  # nothing more is decided
            done = sum(bool(one["decision"]) for one in accepted)
            await progress.say(lambda done=done: f"{done} of {len(nodes)} decided")  # type: ignore[misc]
            await anyio.sleep(min(_LOOK_S, progress.pause_s))
    now = _told(await in_thread(_look, result["search_id"]))
    return reply({**now, "accepted": _shortened(accepted), "rejected": rejected})


def _propose(
    roots: Roots, search_id: str, candidates: Sequence[Proposal]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The answer without waiting, and all that was rejected by its place in the client's list."""
    from ..search.events import OwnForecast
    from ..search.proposals import Candidate
    from ..search.use import propose as hand_over
    from .naming import admitted

    with open_store() as store:
        found = searches.resolve(store, search_id)
        task = tasks.get(store, found.task_id)
        places: list[int] = []
        given: list[Candidate] = []
        rejected: list[dict[str, Any]] = []
        for index, one in enumerate(candidates):
            try:
                kernel = admitted(store, roots, one.kernel, None, task)
            except KforecastError as error:
                rejected.append({"index": index, "why": str(error)[:300]})
                continue
            own = None if one.own is None else OwnForecast.model_validate(one.own.model_dump())
            given.append(Candidate(parent_id=one.parent_id, kernel=kernel, idea=one.idea, own=own))
            places.append(index)
        if not given:
            return {"search_id": found.id, "accepted": []}, rejected
        result: ProposeResult = hand_over(found.id, given, store=store)
    rejected += [{"index": places[one.index], "why": one.why} for one in result.rejected]
    return result.model_dump(mode="json"), sorted(rejected, key=lambda one: int(one["index"]))


def _decided(store: Store, search_id: str, nodes: Sequence[str]) -> list[dict[str, Any]]:
    from ..search.log import SearchLog
    from ..search.use import accepted_of

    state = SearchLog(store, search_id).state
    return [accepted_of(state, node).model_dump(mode="json") for node in nodes]


def _look(search_id: str) -> SearchResult:
    from ..search.use import look

    return look(search_id)


async def look_at_search(
    identity: str, progress: Progress, cursor: int | None, detail: Literal["concise", "full"]
) -> CallToolResult:
    """Where a search stands, once it rests or, given a cursor, has news, or when the client's time is over."""
    with await in_thread(Store.open_readonly) as store:
        row = searches.resolve(store, identity)
        while progress.left_s and row.state in _MOVING and not (cursor is not None and row.events > cursor):
            counted = row.counts.get("measured", 0)
            await progress.say(lambda counted=counted: f"{counted} measured")  # type: ignore[misc]
            await anyio.sleep(min(_LOOK_S, progress.pause_s))
            row = searches.resolve(store, row.id)
        told = _told(await in_thread(_look, row.id), worked_on=await in_thread(_is_worked_on, store, row.id))
        return reply({**told, "candidates": await in_thread(_candidates, row.id)} if detail == "full" else told)


def _is_worked_on(store: Store, search_id: str) -> bool:
    from ..search.process import is_worked_on

    return is_worked_on(store, search_id)


def _candidates(search_id: str) -> list[dict[str, Any]]:
    from ..search.use import candidates

    return _shortened([one.model_dump(mode="json") for one in candidates(search_id, most=_CANDIDATES)])


def _shortened(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the reason for measuring, which is the same for all of them."""
    return [{**one, "reason": None if one["decision"] == "measure" else one["reason"]} for one in told]


async def stop_search(identity: str) -> CallToolResult:
    """Stop a search; one that has ended is no error."""
    return reply(_told(await in_thread(_stop, identity)))


def _stop(identity: str) -> SearchResult:
    from ..search.use import tell

    return tell(identity, "stop", by="mcp")


def _told(result: SearchResult, *, worked_on: bool = True) -> dict[str, Any]:
    """worked_on: whether a worker lives, or has only just been started."""
    plain: dict[str, Any] = result.model_dump(mode="json")
    return {**plain, "next": _next(result, worked_on) or result.next}


def _next(result: SearchResult, worked_on: bool) -> str | None:
    """What an agent can do now, where that is not what a person can."""
    best = result.best
    if result.state in _MOVING and worked_on:
        more = " More candidates are welcome meanwhile." if result.asks and result.state == "working" else ""
        return f'Call get_status(id="{result.search_id}", wait_s=40).{more}'
    again = f'What came of each: get_status(id="{result.search_id}", wait_s=40, detail="full").'
    if result.state == "input_required" and result.asks:
        return (
            'Read a parent: its source_path, or get_status(id=kernel_id, detail="full"). Forecast ideas against it '
            'with detail="brief", then give improved kernels to search_propose, several at once, with your own '
            f"probabilities. {again} Done? stop it."
        )
    if result.state == "cancelled" or (result.state == "completed" and best is None):
        seed = result.seed_id if best is None else best.kernel_id
        return f'To go on begin a new search: seed="{seed}", with other ideas or another budget. {again}'
    if result.state == "completed" and best is not None:
        call = f'measure_kernel(kernel="{best.kernel_id}", baseline="{result.seed_id}", effort="claim")'
        sure = "" if best.verified else f"Confirm it: {call}. "
        return (
            f'{sure}Take its source: get_status(id="{best.kernel_id}", detail="full"). To go further begin a new '
            "search with it as the seed."
        )
    return None
