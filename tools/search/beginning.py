"""How a search begins: its row, its configuration, its first event."""

from __future__ import annotations

from ...store import kernels, searches, tasks
from ...store.clock import utc_now
from ...store.database import Store
from ...store.identity import new_id
from ...store.models import Kernel, Task
from ...store.searches import Search
from .events import Created, SearchConfig, node_id, to_row
from .policies.catalogue import policy_named
from .state import begin


def begin_search(
    store: Store,
    seed: Kernel,
    task: Task,
    config: SearchConfig,
    *,
    search_id: str | None = None,
    request_key: str | None = None,
) -> Search:
    """Save seed, task and a new search; with a request key used before, the search that has it. Nothing runs yet.

    Raises InputError for an unknown policy. A control gets no forecasts as scores, whatever the configuration says.
    """
    if not policy_named(config.policy).guided:
        config = config.model_copy(update={"shrink": 0.0})
    tasks.save(store, task)
    kernels.save(store, seed)
    name = search_id or new_id("s")
    created = Created(search_id=name, config=config, source_id=seed.source_id)
    now = utc_now()
    search = Search(
        id=name,
        state="working",
        task_name=task.name,
        device=config.device,
        policy=config.policy,
        generator=config.generator,
        forecaster=config.forecaster,
        seed_id=seed.id,
        task_id=task.id,
        request_key=request_key,
        limits=begin(created).budget.limits,
        created_at=now,
        updated_at=now,
    )
    return searches.create(store, search, [to_row(created, 0)])


def root_id(search_id: str) -> str:
    """The id of a search's root."""
    return node_id(search_id, "", 0)
