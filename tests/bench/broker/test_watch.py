"""A request watched from an event loop: cancelled when the last watch leaves, unless it may go on alone."""

from __future__ import annotations

import select
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from brokers import Kernels, begun, free, only_request, until

from kforecast.bench.broker import processes_alive, starting
from kforecast.bench.broker.watch import Watch
from kforecast.store import requests
from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.store.models import Request
from kforecast.tools.measure import begin


def ask(store: Store, kernel: Path, **more: object) -> Request:
    client = processes_alive.owner_name("mcp")
    return begin(store, str(kernel), baseline="none", effort="quick", timeout_s=60.0, client=client, **more).request  # type: ignore[arg-type]


def watched(store: Store, request: Request) -> Watch:
    watch = Watch.open(store, request, within_s=20.0)
    assert watch is not None
    return watch


def test_a_watch_starts_the_broker_and_hears_progress_and_the_end(kernels: Kernels) -> None:
    with Store.open() as store:
        watch = watched(store, ask(store, kernels.slow))
        heard: list[str] = []
        while "done" not in heard:
            assert select.select([watch], [], [], 30.0)[0]
            heard += watch.take() or []
        watch.close()
    assert any(text.startswith("timing block") for text in heard)
    assert only_request().state == "completed"


def test_leaving_frees_the_device(kernels: Kernels) -> None:
    with Store.open() as store:
        watch = watched(store, ask(store, kernels.endless))
        begun("checking")
        watch.leave()
        until(lambda: only_request().state == "cancelled", what="it is cancelled", within_s=2.0)
    free()


def test_leaving_cancels_what_waits(kernels: Kernels) -> None:
    with Store.open() as store:
        first = watched(store, ask(store, kernels.endless))
        occupying = begun()
        second = ask(store, kernels.quick)
        watched(store, second).leave()
        until(lambda: requests.get(store, second.id).state == "cancelled", what="it is cancelled", within_s=2.0)  # type: ignore[union-attr]
        assert requests.get(store, occupying.id).state == "working"  # type: ignore[union-attr]
        first.leave()
    free()


def test_nobody_takes_away_what_somebody_else_watches(kernels: Kernels) -> None:
    with Store.open() as store:
        request = ask(store, kernels.slow)
        stays, goes = watched(store, request), watched(store, request)
        begun()
        goes.leave()
        until(lambda: only_request().state == "completed", what="it is completed")
        stays.close()


def test_a_detached_request_goes_on_alone_and_stays_the_same_request(kernels: Kernels) -> None:
    with Store.open() as store:
        request = ask(store, kernels.slow, request_key="mine")
        watch = watched(store, request)
        begun()
        assert requests.detach(store, request.id).payload["detached"] is True
        watch.leave()
        assert ask(store, kernels.slow, request_key="mine").id == request.id
        with pytest.raises(InputError, match="mine"):
            ask(store, kernels.quick, request_key="mine")
        until(lambda: only_request().state == "completed", what="it is completed")
        assert requests.detach(store, request.id).state == "completed"


def test_many_threads_that_find_no_broker_start_one(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    start = starting._start
    monkeypatch.setattr(starting, "_start", lambda *given: started.append(given) or start(*given))
    with Store.open() as store, ThreadPoolExecutor(20) as pool:
        request = ask(store, kernels.quick)
        for watch in pool.map(lambda _: watched(store, request), range(20)):
            watch.close()
    assert len(started) == 1
    until(lambda: only_request().state in ("completed", "cancelled"), what="it has ended")
