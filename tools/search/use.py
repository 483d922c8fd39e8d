"""The use case `search`: begin, look at, tell, propose to. Written once for every face."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from ...store import kernels, searches
from ...store.database import Store
from ...store.errors import InputError
from ...store.models import Kernel, Task
from ...store.searches import ENDED, LogMoved, Search
from ..kernels import Asked, device_for, find_kernel
from ..sources import copy_of
from .beginning import begin_search
from .budget import Budget, parse_budget
from .events import AnyEvent, Order, SearchConfig, Told
from .log import SearchLog
from .parts import BEST, check_names
from .policies.catalogue import policy_named
from .policies.gain import Gain
from .policies.puct import Puct
from .process import ensure_worker, is_starting, is_worked_on, work_in
from .proposals import Candidate, Rejected, add_proposals
from .replay import is_replay, pool_of, with_whole_path
from .results import CandidateResult, SearchResult, asks_of, candidate_of, search_result
from .state import State

MOST_PROPOSED = 16
_LOOK_S = 0.1
_MOST_LOGS = 8
_logs: dict[tuple[str, str], SearchLog] = {}
_looking = threading.Lock()
_RESTING = ("input_required", "paused", *ENDED)
Progress = Callable[[SearchResult], None]


class Accepted(BaseModel):
    """What became of a proposed candidate by now; all but the ids null until it was forecast. p_faster: than the
    nearest measured ancestor, given that it is correct; forecast_speedup: against the seed. reason: of the decision."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kernel_id: str
    node_id: str
    decision: str | None
    reason: str | None
    p_faster: float | None
    forecast_speedup: float | None


class ProposeResult(SearchResult):
    """The answer of `search_propose`."""

    accepted: tuple[Accepted, ...]
    rejected: tuple[Rejected, ...]


def start(
    seed: str,
    *,
    budget: Budget | str,
    task: str | None = None,
    device: str | None = None,
    request_key: str | None = None,
    detached: bool = True,
    consent: bool = False,
    store: Store | None = None,
    on_begun: Callable[[str], None] = lambda search_id: None,
    **config: Any,
) -> SearchResult:
    """Begin a search from a seed kernel (id, path or source text) and return at once; a worker of its own does the
    rest. Asking again with the same request_key is asking once.

    budget: as a `Budget` or as the command line writes it. config: fields of `SearchConfig` (policy, generator,
    forecaster, model, random_seed, …). consent: the user agrees that sources go to the hosted models among them.
    detached: False works in this process until the search ends. on_begun: told the search's id before that.
    Raises InputError and UnsupportedError for what is wrong with seed, names, budget or their combination.
    """
    opened = store or Store.open()
    try:
        earlier = None if request_key is None else searches.by_key(opened, request_key)
        search = earlier or _begun(opened, seed, budget, task, device, request_key, consent, config)
        on_begun(search.id)
        if detached:
            if search.state not in ENDED:
                ensure_worker(opened, search.id)
        else:
            work_in(opened, search.id)
        return look(search.id, store=opened)
    finally:
        if store is None:
            opened.close()


search = start
"""The public name: `kforecast.search`."""


def _begun(
    store: Store,
    seed: str,
    budget: Budget | str,
    task_name: str | None,
    device: str | None,
    request_key: str | None,
    consent: bool,
    config: dict[str, Any],
) -> Search:
    limits = parse_budget(budget) if isinstance(budget, str) else budget
    kernel, task, where = _seed(store, seed, task_name, device)
    try:
        whole = SearchConfig.model_validate(
            {
                "task_id": task.id,
                "task_name": task.name,
                "seed_id": kernel.id,
                "device": where,
                "budget": limits,
                "virtual": is_replay(where),
                **({"generator": "atlas"} if is_replay(where) else {"forecaster": BEST}),
                **{name: value for name, value in config.items() if value is not None},
            }
        )
    except ValueError as error:
        first = str(error).splitlines()[2:3] or [str(error)]
        raise InputError(
            "the search's configuration is wrong", value=first[0].strip(), next_step="Correct it."
        ) from None
    policy_named(whole.policy)
    check_names(whole, store, task, kernel, consent=consent)
    return begin_search(store, kernel, task, whole, request_key=request_key)


def _seed(store: Store, seed: str, task_name: str | None, device: str | None) -> tuple[Kernel, Task, str]:
    if device is not None and is_replay(device):
        device = with_whole_path(device)
        pool = pool_of(device)
        tasks_here = {task.id: task for task in pool.tasks.values()}
        named = [task for task in tasks_here.values() if seed in (task.name, task.id)]
        if seed in pool.recorded:
            kernel = pool.recorded[seed].kernel
        elif named and (root := pool.root(named[0].id)) is not None:
            kernel = root.kernel
        else:
            found = ", ".join(sorted(task.name for task in tasks_here.values()))
            step = f"Give a task of the file ({found}) or the id of a recorded kernel."
            raise InputError("the replayed file has no such seed", value=seed[:80], next_step=step)
        return kernel, pool.tasks[kernel.task_id], device
    found_kernel = find_kernel(store, seed, Asked(task_name))
    return found_kernel.kernel, found_kernel.task, device_for(found_kernel.kernel, device)


def look(search_id: str, *, store: Store | None = None, wait_s: float = 0.0, cursor: int | None = None) -> SearchResult:
    """Where a search stands; waits up to `wait_s` seconds for it to rest, or with `cursor` for anything new."""
    opened = store or Store.open()
    try:
        search = searches.resolve(opened, search_id)
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline and search.state not in _RESTING and not (cursor and search.events > cursor):
            time.sleep(_LOOK_S)
            search = searches.resolve(opened, search.id)
        with _looking:
            return _result(opened, searches.resolve(opened, search.id), _log_of(opened, search.id).state)
    finally:
        if store is None:
            opened.close()


def _log_of(store: Store, search_id: str) -> SearchLog:
    """The log, kept from the last look: a long one is not folded anew for every answer. The caller has `_looking`."""
    key = (str(store.path), search_id)
    log = _logs.get(key)
    if log is None:
        if len(_logs) >= _MOST_LOGS:
            _logs.clear()
        log = _logs[key] = SearchLog(store, search_id)
    log.through(store)
    log.catch_up()
    return log


def _result(store: Store, search: Search, state: State) -> SearchResult:
    def path_of(kernel_id: str) -> str:
        return str(copy_of(kernels.resolve(store, kernel_id)))

    asked = search.generator == "agent" and search.state not in ENDED
    asks = asks_of(state, _worth_improving(state), path_of) if asked else []
    worked_on = is_worked_on(store, search.id) or is_starting(search.id)
    return search_result(search, state, asks, worked_on=worked_on)


def _worth_improving(state: State) -> list[int]:
    policy = policy_named(state.config.policy)
    if isinstance(policy, Puct | Gain):
        return policy.ranked(state)
    first = policy.expand(state)
    return [] if first is None else [first]


def tell(
    search_id: str, order: Order, *, budget: Budget | str | None = None, by: str = "", store: Store | None = None
) -> SearchResult:
    """Stop, pause, resume or extend a search. Idempotent: what is so already is no error.

    Raises InputError for an unknown search, an extension without a budget, and to resume what failed.
    """
    opened = store or Store.open()
    try:
        search = searches.resolve(opened, search_id)
        more = parse_budget(budget) if isinstance(budget, str) else budget
        if order == "extend" and more is None:
            raise InputError("an extension needs a budget", value=search.id, next_step="Give one, e.g. --extend 100m.")
        if order in ("resume", "extend") and search.state == "failed":
            raise InputError("a failed search cannot go on", value=search.reason, next_step="Start a new one.")
        resting = {"stop": ENDED, "pause": (*ENDED, "paused")}
        needless = search.state in resting.get(order, ())
        if not needless:
            _say(opened, search.id, [Told(order=order, by=by, budget=more)])
            if searches.resolve(opened, search.id).state not in (*ENDED, "paused"):
                ensure_worker(opened, search.id)
        return look(search.id, store=opened)
    finally:
        if store is None:
            opened.close()


def _say(store: Store, search_id: str, events: Sequence[AnyEvent]) -> None:
    while True:
        log = SearchLog(store, search_id)
        timed = [event.model_copy(update={"clock": log.state.clock}) for event in events]
        try:
            return log.append(timed)
        except LogMoved:
            continue


def propose(
    search_id: str, candidates: Sequence[Candidate], *, wait_s: float = 0.0, store: Store | None = None
) -> ProposeResult:
    """Give candidates to a search of generator `agent` (or of any other: they are welcome there too).

    What is unreadable, computes another task, or is elsewhere in the search, is rejected by its place in the list; the
    same child of the same parent is accepted as what it is, so asking again is asking once.
    wait_s: how long to wait until all that was accepted has been decided on.
    """
    if not 1 <= len(candidates) <= MOST_PROPOSED:
        step = f"Give 1 to {MOST_PROPOSED}."
        raise InputError("wrong number of candidates", value=len(candidates), next_step=step)
    opened = store or Store.open()
    try:
        search = searches.resolve(opened, search_id)
        closed = None
        if search.state in (*ENDED, "stopping"):
            step = f"`kforecast search resume {search.id}` first, with more budget if it is spent."
            closed = InputError(f"the search is {search.state}", value=search.id, next_step=step)
        nodes, rejected = add_proposals(opened, search, candidates, closed)
        if closed is None:
            ensure_worker(opened, search.id)
        deadline = time.monotonic() + wait_s
        while True:
            state = SearchLog(opened, search.id).state
            accepted = [accepted_of(state, node) for node in nodes]
            if all(one.decision for one in accepted) or time.monotonic() >= deadline:
                break
            time.sleep(_LOOK_S)
        result = _result(opened, searches.resolve(opened, search.id), state)
        return ProposeResult(**dict(result), accepted=tuple(accepted), rejected=tuple(rejected))
    finally:
        if store is None:
            opened.close()


def accepted_of(state: State, node_id_: str) -> Accepted:
    """What became of a proposed candidate by now, by its node's id."""
    told = candidate_of(state, state.nodes[state.by_id[node_id_]])
    return Accepted.model_validate(told.model_dump(include=set(Accepted.model_fields)))


def candidates(search_id: str, *, most: int = 50, store: Store | None = None) -> list[CandidateResult]:
    """What became of a search's last candidates, in the order of their proposal; the seed is the first of all."""
    opened = store or Store.open()
    try:
        with _looking:
            state = _log_of(opened, searches.resolve(opened, search_id).id).state
            return [candidate_of(state, node) for node in state.nodes[-most:]]
    finally:
        if store is None:
            opened.close()


def listing(store: Store, limit: int = 20) -> list[tuple[Search, bool]]:
    """The searches begun last, newest first, and whether a worker has each."""
    return [(search, is_worked_on(store, search.id)) for search in searches.recent(store, limit)]


def best_source(search_id: str, *, store: Store | None = None) -> Kernel:
    """The best measured kernel of a search; its seed where nothing better was found. Raises InputError."""
    opened = store or Store.open_readonly()
    try:
        search = searches.resolve(opened, search_id)
        found = kernels.get(opened, search.best_id or search.seed_id)
        assert found is not None, "a search's kernels are in the store"
        return found
    finally:
        if store is None:
            opened.close()
