"""What of a device's queue is a broker's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from brokers import Kernels, ask, broker_pid, until

from kforecast.bench.broker import processes_alive, waiting
from kforecast.bench.broker.service import Service
from kforecast.bench.broker.waiting import Queue
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.store import kernels as saved
from kforecast.store import requests, tasks
from kforecast.store.database import Store
from kforecast.store.models import Kernel, Language, Request


class Compilers:
    """A service that compiles what it is told to be done with."""

    compiles_ahead = True

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.done: set[str] = set()

    def compile_ahead(self, request: Request) -> bool:
        self.asked.append(request.id)
        return True

    def is_compiling(self, request: Request) -> bool:
        return request.id in self.asked and request.id not in self.done


WATCHED: set[str] = set()


def queue_for(hands: int, service: Any = None) -> Queue:
    store = Store.open()
    service = service or Service(store, "cpu", processes_alive.owner_name("test"))
    return Queue(store, "cpu", "own", WATCHED.__contains__, hands, service)


@pytest.fixture
def queue() -> Queue:
    WATCHED.clear()
    return queue_for(2)


@pytest.fixture
def saved_kernels() -> tuple[str, str]:
    """Ids of a PyTorch program and of a C kernel of one task."""
    task = builtin_task("vector_add")

    def kernel(language: Language) -> str:
        made = Kernel.make(language=language, name="k", source=language, launches=(), task_id=task.id)
        saved.save(store, made)
        return made.id

    with Store.open() as store:
        tasks.save(store, task)
        return kernel("torch"), kernel("c")


def put(client: str | None = None, **payload: Any) -> Request:
    with Store.open() as store:
        client = client or processes_alive.owner_name("cli")
        return requests.enqueue(store, device="cpu", payload={"kernel_id": "k_1", **payload}, client=client)


def seen(queue: Queue) -> list[str]:
    return [one.id for one in queue.look()]


def test_a_request_for_no_broker_in_particular_and_one_for_this_are_taken(queue: Queue) -> None:
    asked = [put().id, put(broker="own").id]
    assert sorted(seen(queue)) == sorted(asked)


def test_what_a_living_client_wants_of_another_broker_is_left_for_ever(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, own = put(broker="other"), put()
    assert seen(queue) == [own.id]
    monkeypatch.setattr(waiting, "LEFT_S", -1.0)
    assert seen(queue) == [own.id]
    requests.detach(Store.open(), other.id)
    assert sorted(seen(queue)) == sorted([other.id, own.id])


def test_what_is_watched_is_this_brokers_whatever_its_row_says(queue: Queue) -> None:
    """The client's code changed after it asked, and it has found the broker of its kind."""
    request = put(broker="other")
    assert seen(queue) == []
    WATCHED.add(request.id)
    assert seen(queue) == [request.id]


def test_what_waits_with_others_is_compiled_and_ready_when_that_is_done() -> None:
    service = Compilers()
    queue = queue_for(2, service)
    first = put("one")
    assert [one.ready for one in queue.look()] == [False]
    assert service.asked == [], "who measures it compiles it"
    second = put("one")
    queue.look()
    assert service.asked == [first.id, second.id]
    service.done.add(second.id)
    assert {one.id: one.ready for one in queue.look()} == {first.id: False, second.id: True}
    assert service.asked == [first.id, second.id], "once"


def test_one_hand_takes_them_in_their_order() -> None:
    service = Compilers()
    queue = queue_for(1, service)
    begun, later = put("one"), put("one")
    waiting = queue.look()
    assert [(one.id, one.ready) for one in waiting] == [(begun.id, True), (later.id, True)]
    assert service.asked == []
    queue.compile_ahead(waiting[0])
    assert service.asked == [later.id]


def test_many_for_the_first_hand_hide_none_for_the_others(saved_kernels: tuple[str, str]) -> None:
    hosted, other = saved_kernels
    for _ in range(20):
        put("one", kernel_id=hosted)
    last = put("one", kernel_id=other)
    found = {one.id: one.needs.hosted for one in queue_for(2).look()}
    assert len(found) == 21
    assert found[last.id] is False
    assert sum(found.values()) == 20


@pytest.mark.parametrize("client", [None, "cli:4194304:1", "search:7"])
def test_what_nobody_waits_for_is_left_for_a_moment(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, client: str | None
) -> None:
    """A client looks for its broker as soon as it has asked, and may have died before."""
    request = put(client, broker="other", detached=client != "cli:4194304:1")
    assert seen(queue) == []
    monkeypatch.setattr(waiting, "LEFT_S", -1.0)
    assert seen(queue) == [request.id]


def test_many_that_are_left_hide_none_behind_them(queue: Queue) -> None:
    for _ in range(20):
        put("search:1", broker="other", detached=True)
    own = put("search:1", broker="own", detached=True)
    assert seen(queue) == [own.id]


def test_a_broker_does_not_end_while_something_waits(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it leaves it to another at first, for longer than it stays idle."""
    monkeypatch.setenv("KFORECAST_BROKER_IDLE_S", "0.2")
    asked = ask(kernels.quick, client="first")
    serving = broker_pid()
    with Store.open() as store:
        payload = {"kernel_id": asked.kernel_id, "baseline_id": None, "broker": "other", "detached": True}
        row = requests.enqueue(store, device="cpu", payload=payload, client="search:1")
        until(lambda: not requests.unfinished(store), what="it is measured")
        ended = requests.get(store, row.id)
    assert ended is not None
    assert (ended.state, ended.attempts) == ("completed", 1)
    until(lambda: not Path(f"/proc/{serving}").exists(), what="it ends then")
