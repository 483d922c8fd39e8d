"""What of a device's queue is a broker's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from brokers import Kernels, ask, broker_pid, until

from kforecast.bench.broker import processes_alive, waiting
from kforecast.bench.broker.service import Service
from kforecast.bench.broker.waiting import Queue
from kforecast.store import requests
from kforecast.store.database import Store
from kforecast.store.models import Request


@pytest.fixture
def queue() -> Queue:
    store = Store.open()
    return Queue(store, "cpu", "own", 2, Service(store, "cpu", processes_alive.owner_name("test")))


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
