"""Compiling ahead: into the cache, bounded, never in the way of who compiles for himself."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from kforecast.bench.broker.prefetch import Prefetch
from kforecast.bench.broker.service import Service
from kforecast.bench.header.signature import Signature
from kforecast.bench.lane import Lane
from kforecast.bench.languages.build import Build
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.store import kernels, requests, tasks
from kforecast.store.database import Store
from kforecast.store.errors import DeviceError
from kforecast.store.models import Facts, Kernel, Launch, Task


class _Lane:
    """Compiles when the gate opens, and remembers what it was asked for."""

    def __init__(self, lane: str = "device-only") -> None:
        self.lane = lane
        self.gate = threading.Event()
        self.begun = threading.Semaphore(0)
        self.compiled: list[str] = []
        self.fails = False
        self.error: Exception = DeviceError("no compiler", next_step="Install one.")

    def warm_up(self) -> None:
        pass

    def compile(self, kernel: Kernel, signatures: Sequence[Signature], task: Task | None = None) -> Build:
        self.begun.release()
        assert self.gate.wait(30)
        if self.fails:
            raise self.error
        assert [found.name for found in signatures] == ["k"]
        self.compiled.append(kernel.id)
        return Build(None, Facts(ok=True))


def kernel(number: int) -> Kernel:
    source = f'extern "C" __global__ void k(float* y) {{ y[0] = {number}; }}'
    launch = Launch(entry="k", args=("y",))
    return Kernel.make(language="cuda", name="k", source=source, launches=(launch,), task_id="t_1")


@pytest.fixture
def lane() -> _Lane:
    return _Lane()


@pytest.fixture
def ahead(lane: _Lane) -> Iterator[Prefetch]:
    made = Prefetch(cast(Lane, lane), threads=1, most=2)
    yield made
    lane.gate.set()
    made.close()


def test_what_was_asked_for_is_compiled_in_order(lane: _Lane, ahead: Prefetch) -> None:
    assert ahead.ask(kernel(1))
    assert ahead.ask(kernel(2))
    lane.gate.set()
    assert lane.begun.acquire(timeout=30)
    ahead.settle(kernel(1).id)
    assert lane.begun.acquire(timeout=30)
    ahead.settle(kernel(2).id)
    assert lane.compiled == [kernel(1).id, kernel(2).id]


def test_a_kernel_is_asked_for_once_and_no_more_than_the_limit_wait(lane: _Lane, ahead: Prefetch) -> None:
    assert ahead.ask(kernel(1))
    assert ahead.ask(kernel(1)), "it waits already"
    assert ahead.ask(kernel(2))
    assert not ahead.ask(kernel(3))
    lane.gate.set()
    ahead.settle(kernel(1).id)
    ahead.settle(kernel(2).id)
    assert ahead.ask(kernel(3))


def test_settling_waits_for_what_runs_and_drops_what_only_waits(lane: _Lane, ahead: Prefetch) -> None:
    ahead.ask(kernel(1))
    assert lane.begun.acquire(timeout=30)  # the one thread is busy with the first
    ahead.ask(kernel(2))
    ahead.settle(kernel(2).id)  # returns although the gate is shut
    settled = threading.Event()

    def settle() -> None:
        ahead.settle(kernel(1).id)
        settled.set()

    waiting = threading.Thread(target=settle)
    waiting.start()
    assert not settled.wait(0.05)
    lane.gate.set()
    waiting.join(30)
    ahead.close()
    assert settled.is_set()
    assert lane.compiled == [kernel(1).id]


def test_finishing_waits_for_what_runs_and_compiles_what_waits_or_was_not_asked_for(
    lane: _Lane, ahead: Prefetch
) -> None:
    ahead.ask(kernel(1))
    assert lane.begun.acquire(timeout=30)  # the one thread is busy with the first
    ahead.ask(kernel(2))
    threads = [threading.Thread(target=ahead.finish, args=(kernel(number),)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for _ in (2, 3):
        assert lane.begun.acquire(timeout=30)
    assert lane.compiled == []
    lane.gate.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert sorted(lane.compiled) == sorted(kernel(number).id for number in (1, 2, 3))
    lane.fails = True
    for error in (lane.error, OSError(28, "no space left"), RuntimeError("a bug of ours")):
        lane.error = error
        ahead.finish(kernel(4))  # it is told where the kernel is measured
    assert ahead.ask(kernel(2)), "nothing is left asked for"


def test_a_failure_is_left_to_who_compiles_next(lane: _Lane, ahead: Prefetch) -> None:
    lane.fails = True
    assert ahead.ask(kernel(1))
    assert lane.begun.acquire(timeout=30)
    lane.gate.set()
    ahead.settle(kernel(1).id)
    lane.fails = False
    assert ahead.ask(kernel(1)), "the failed attempt is forgotten"
    assert lane.begun.acquire(timeout=30)
    ahead.settle(kernel(1).id)
    assert lane.compiled == [kernel(1).id]


def test_nothing_is_compiled_where_that_would_disturb_the_times() -> None:
    lane = _Lane("host-code")
    ahead = Prefetch(cast(Lane, lane))
    assert not ahead.ask(kernel(1))
    ahead.settle(kernel(1).id)
    ahead.finish(kernel(1))
    ahead.close()
    assert lane.compiled == []


def test_after_closing_nothing_is_taken(lane: _Lane, ahead: Prefetch) -> None:
    lane.gate.set()
    ahead.close()
    ahead.close()
    assert not ahead.ask(kernel(1))


def test_a_service_compiles_ahead_what_waits_and_not_what_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch, lane: _Lane
) -> None:
    monkeypatch.setattr("kforecast.bench.broker.service.open_lane", lambda device, profile: lane)
    monkeypatch.setattr(lane, "close", lambda: None, raising=False)
    with Store.open() as store:
        task = builtin_task("sum_all")
        tasks.save(store, task)
        known = kernel(1).model_copy(update={"task_id": task.id})
        kernels.save(store, known)
        ids = (known.id, "k_0")
        rows = [requests.enqueue(store, device="cuda:0", payload={"kernel_id": id_}, client="c") for id_ in ids]
        service = Service(store, "cuda:0", "owner")
        service.compile_ahead(rows[0])  # the device is not open yet: nobody knows what to compile with
        service._open()
        lane.gate.set()
        for row in rows:
            service.compile_ahead(row)
        assert lane.begun.acquire(timeout=30)
        service.close()
    assert lane.compiled == [known.id]
