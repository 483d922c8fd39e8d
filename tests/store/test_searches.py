"""Searches in the store: logs that only grow, leases, pages of candidates."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kforecast.store import kernels, searches, tasks
from kforecast.store.clock import utc_now
from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.store.models import Kernel, Task
from kforecast.store.searches import LoggedEvent, Search, SearchNode

LONG_AGO = "2000-01-01T00:00:00.000000Z"


def event(ordinal: int, kind: str = "proposed") -> LoggedEvent:
    return LoggedEvent(ordinal, kind, None, float(ordinal), f'{{"kind":"{kind}"}}')


@pytest.fixture
def search(store: Store, task: Task, make_kernel: Callable[..., Kernel]) -> Search:
    seed = make_kernel()
    tasks.save(store, task)
    kernels.save(store, seed)
    new = Search(
        id="s_0123456789",
        state="working",
        task_name=task.name,
        device="cpu",
        policy="puct",
        generator="tune",
        forecaster="base-rate",
        seed_id=seed.id,
        task_id=task.id,
        request_key="key",
        limits={"measurements": 3},
        created_at=utc_now(),
        updated_at=utc_now(),
    )
    return searches.create(store, new, [event(0, "created")])


def grown(search: Search, by: int) -> Search:
    return search.model_copy(update={"events": search.events + by})


def test_a_search_comes_back_as_it_was_saved(store: Store, search: Search) -> None:
    assert searches.get(store, search.id) == search
    assert searches.resolve(store, search.id[:6]) == search
    assert searches.recent(store) == [search]
    assert [one.kind for one in searches.events(store, search.id)] == ["created"]


def test_asking_again_with_the_same_key_is_asking_once(store: Store, search: Search) -> None:
    again = search.model_copy(update={"id": "s_another"})
    assert searches.create(store, again, [event(0)]).id == search.id
    assert searches.get(store, "s_another") is None


def test_an_append_that_missed_an_event_is_refused_whole(store: Store, search: Search) -> None:
    searches.append(store, grown(search, 1), [event(1)])
    with pytest.raises(searches.LogMoved):
        searches.append(store, grown(search, 1), [event(1)])
    assert len(searches.events(store, search.id)) == 2
    assert [one.ordinal for one in searches.events(store, search.id, after=0)] == [1]


def test_only_the_worker_that_has_the_lease_appends(store: Store, search: Search) -> None:
    assert searches.take_lease(store, search.id, "one", lambda name: True, stale_before=LONG_AGO) is None
    assert searches.take_lease(store, search.id, "two", lambda name: True, stale_before=LONG_AGO) == "one"
    assert searches.take_lease(store, search.id, "two", lambda name: False, stale_before=LONG_AGO) is None
    with pytest.raises(searches.LeaseLost):
        searches.append(store, grown(search, 1), [event(1)], owner="one")
    with pytest.raises(searches.LeaseLost):
        searches.beat(store, search.id, "one")
    searches.append(store, grown(search, 1), [event(1)], owner="two")
    searches.drop_lease(store, search.id, "one")
    assert searches.lease(store, search.id) is not None
    searches.drop_lease(store, search.id, "two")
    assert searches.lease(store, search.id) is None


def test_a_stale_lease_can_be_taken_from_the_living(store: Store, search: Search) -> None:
    assert searches.take_lease(store, search.id, "one", lambda name: True, stale_before=LONG_AGO) is None
    assert searches.take_lease(store, search.id, "two", lambda name: True, stale_before="2999") is None


def test_candidates_are_paged_in_order_or_best_first(store: Store, search: Search) -> None:
    found = [
        SearchNode(
            id=f"n_{number}",
            search_id=search.id,
            ordinal=number,
            parent_id="n_0" if number else None,
            kernel_id=search.seed_id,
            state="measured",
            log2_speedup=[0.0, None, 2.0, 1.0][number],
            created_at=utc_now(),
        )
        for number in range(4)
    ]
    searches.append(store, grown(search, 1), [event(1)], found)
    assert [node.ordinal for node in searches.nodes(store, search.id, limit=2, offset=1)] == [1, 2]
    assert [node.ordinal for node in searches.nodes(store, search.id, best_first=True)] == [2, 3, 0]
    changed = found[1].model_copy(update={"state": "dropped"})
    searches.append(store, grown(search, 2), [event(2)], [changed])
    assert searches.nodes(store, search.id)[1].state == "dropped"


def test_an_unknown_search_is_told(store: Store) -> None:
    with pytest.raises(InputError, match="no search"):
        searches.resolve(store, "s_nothing")
