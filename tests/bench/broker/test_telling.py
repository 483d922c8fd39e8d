"""What other processes see of a request that is worked on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from kforecast.bench.broker import telling
from kforecast.bench.broker.telling import Telling
from kforecast.store import requests
from kforecast.store.database import Store
from kforecast.store.models import Request

OWNER = "broker-test"


@pytest.fixture
def told() -> Iterator[tuple[Telling, Store, Request]]:
    with Store.open() as store:
        asked = requests.enqueue(store, device="cpu", payload={"kernel_id": "k_1"}, client="test")
        claimed = requests.claim(store, asked.id, OWNER)
        assert claimed is not None
        one = Telling(store, OWNER)
        yield one, store, claimed
        one.close()


def row(store: Store, request: Request) -> Request:
    found = requests.get(store, request.id)
    assert found is not None
    return found


def until(met: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not met():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_step_that_lasts_is_written_and_so_is_the_next_one(told: tuple[Telling, Store, Request]) -> None:
    one, store, request = told
    for step in ("compiling", "timing block 1 of 8"):
        assert one.tell(request.id, step)
        until(lambda step=step: row(store, request).progress == step)  # type: ignore[misc]


def test_of_steps_that_come_fast_few_are_written(
    told: tuple[Telling, Store, Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, store, request = told
    written: list[str] = []
    save = requests.set_progress

    def counted(store: Store, request_id: str, owner: str, progress: str) -> bool:
        written.append(progress)
        return save(store, request_id, owner, progress)

    monkeypatch.setattr(requests, "set_progress", counted)
    for number in range(1000):
        one.tell(request.id, f"timing block {number}")
    until(lambda: row(store, request).progress == "timing block 999")
    assert len(written) < 1000 / 10


def test_nothing_is_written_of_a_request_that_is_over(
    told: tuple[Telling, Store, Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, store, request = told
    monkeypatch.setattr(telling, "EVERY_S", 0.05)
    one.tell(request.id, "compiling")
    one.forget(request.id)
    time.sleep(0.3)
    assert row(store, request).progress == ""


def test_who_lost_his_request_is_told_so(told: tuple[Telling, Store, Request]) -> None:
    one, store, request = told
    requests.cancel(store, request.id)
    until(lambda: not one.tell(request.id, f"timing {time.monotonic()}"))
    one.forget(request.id)
    assert one.tell(request.id, "another one of this id")


def test_closing_ends_its_thread_and_it_may_begin_again(told: tuple[Telling, Store, Request]) -> None:
    one, store, request = told
    one.tell(request.id, "compiling")
    one.close()
    one.close()
    assert not any(thread.name == "kforecast-telling" for thread in threading.enumerate())
    one.tell(request.id, "timing")
    until(lambda: row(store, request).progress == "timing")
