"""Following a store: every change once, in words that hold, whatever becomes of the file."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kforecast.bench.broker.lock import device_lock
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.store import forecasts, kernels, measurements, requests, tasks
from kforecast.store.clock import utc_now
from kforecast.store.database import Store
from kforecast.store.identity import new_id
from kforecast.store.models import Forecast, Kernel, Launch, Measurement
from kforecast.tools.following import Change, Follower

TASK = builtin_task("softmax_rows")
KERNELS = [
    Kernel.make(
        language="c",
        name=f"one{number}.c",
        source=f"int x{number};",
        launches=(Launch(entry="f", args=("x",)),),
        task_id=TASK.id,
    )
    for number in range(2)
]


def measured(**changes: Any) -> Measurement:
    fields: dict[str, Any] = {
        "id": new_id("m"),
        "kernel_id": KERNELS[0].id,
        "task_id": TASK.id,
        "task_name": TASK.name,
        "device": "cpu",
        "device_id": "cpu-1",
        "lane": "host-code",
        "launch_mode": "process",
        "effort": "quick",
        "verdict": "ok",
        "reason": "",
        "time_us": 10.0,
        "created_at": utc_now(),
    }
    return Measurement(**{**fields, **changes})


def forecast() -> Forecast:
    return Forecast(
        id=new_id("f"),
        kernel_id=KERNELS[0].id,
        baseline_id=KERNELS[1].id,
        task_id=TASK.id,
        device="cpu",
        forecaster="base-rate",
        p_correct=0.5,
        p_bins=(0.125,) * 8,
        log2_median=1.0,
        log2_p10=-1.0,
        log2_p90=2.0,
        created_at=utc_now(),
    )


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open() as opened:
        tasks.save(opened, TASK)
        for kernel in KERNELS:
            kernels.save(opened, kernel)
        yield opened


@pytest.fixture
def follower() -> Iterator[Follower]:
    with Follower() as opened:
        yield opened


def kinds(changes: list[Change]) -> list[str]:
    return [change.kind for change in changes]


def states(changes: list[Change]) -> list[str]:
    return [change.line.state for change in changes if change.kind in ("store", "request")]  # type: ignore[union-attr]


def test_what_was_there_is_the_present_and_only_what_comes_is_a_change(store: Store, follower: Follower) -> None:
    measurements.save(store, measured())
    assert states(follower.poll()) == ["open"]
    now = follower.present()
    assert now is not None and [row.name for row in now.measurements] == ["one0.c"]
    assert follower.poll() == []
    found = measured(verdict="incorrect")
    measurements.save(store, found)
    (change,) = follower.poll()
    assert change.flat()["measurement_id"] == found.id
    assert change.flat()["verdict"] == "incorrect"
    assert follower.poll() == []


def test_a_forecast_is_told_as_it_was_told(store: Store, follower: Follower) -> None:
    follower.poll()
    forecasts.save(store, forecast())
    (change,) = follower.poll()
    told = change.flat()
    assert (told["kind"], told["speedup"], told["low"], told["high"]) == ("forecast", 2.0, 0.5, 4.0)
    assert (told["name"], told["task"], told["decision"]) == ("one0.c", "softmax_rows", None)


def test_progress_of_a_request_is_no_news_but_its_state_is(store: Store, follower: Follower) -> None:
    follower.poll()
    asked = requests.enqueue(store, device="cpu", payload={}, client="c")
    seen = states(follower.poll())
    requests.claim(store, requests.queue(store, "cpu", limit=1)[0].id, "broker-1")
    seen += states(follower.poll())
    requests.set_progress(store, asked.id, "broker-1", "timing block 3")
    assert follower.poll() == []
    requests.cancel(store, asked.id)
    seen += states(follower.poll())
    assert seen == ["queued", "working", "cancelled"]


def test_only_the_wanted_device_and_task(store: Store) -> None:
    with Follower(device="cuda:0") as gpu, Follower(task="scan") as scan, Follower(task="softmax_rows") as own:
        for one in (gpu, scan, own):
            one.poll()
        measurements.save(store, measured())
        assert (gpu.poll(), scan.poll()) == ([], [])
        assert kinds(own.poll()) == ["measurement"]


def test_who_holds_a_device_is_told_when_it_changes(store: Store, follower: Follower) -> None:
    follower.poll()
    with device_lock("cpu-follow", device="cpu", purpose="a test"):
        (taken,) = follower.poll()
        assert taken.flat()["holder"]["pid"] == os.getpid()
        assert follower.poll() == []
    (free,) = follower.poll()
    assert (free.kind, free.flat()["holder"]) == ("device", None)


def test_a_store_that_comes_later_is_waited_for(follower: Follower) -> None:
    assert states(follower.poll()) == ["missing"]
    assert follower.present() is None
    assert follower.poll() == []
    with Store.open() as store:
        tasks.save(store, TASK)
        kernels.save(store, KERNELS[0])
        measurements.save(store, measured())
        assert kinds(follower.poll()) == ["store", "measurement"]


def test_a_store_that_was_away_comes_back_without_its_past(store: Store, follower: Follower) -> None:
    measurements.save(store, measured())
    follower.poll()
    store.close()
    aside = store.path.with_name("aside.db")
    store.path.rename(aside)
    assert states(follower.poll()) == ["missing"]
    aside.rename(store.path)
    assert [(one.kind, one.flat().get("state")) for one in follower.poll()] == [("store", "open")]
    assert follower.poll() == []


def test_a_store_that_was_replaced_is_followed_from_there_on(store: Store, follower: Follower, tmp_path: Path) -> None:
    measurements.save(store, measured())
    copy = (tmp_path / "copy.db").resolve()
    store.read("VACUUM INTO ?", (str(copy),))
    follower.poll()
    store.close()
    shutil.move(copy, store.path)
    assert states(follower.poll()) == ["replaced"]
    assert kinds(follower.poll()) == ["store"]
    with Store.open() as other:
        measurements.save(other, measured())
    assert kinds(follower.poll()) == ["measurement"]


def test_a_newer_store_says_so_and_is_looked_at_again(store: Store, follower: Follower) -> None:
    follower.poll()
    version = store.read("PRAGMA user_version")[0][0]
    store.close()
    with sqlite3.connect(store.path) as db:
        db.execute(f"PRAGMA user_version = {version + 1}")
    with Follower() as late:
        (change,) = late.poll()
        assert change.flat()["state"] == "unreadable"
        assert "newer kforecast" in change.flat()["message"]
        with sqlite3.connect(store.path) as db:
            db.execute(f"PRAGMA user_version = {version}")
        assert states(late.poll()) == ["open"]


def test_a_locked_store_is_asked_again(store: Store) -> None:
    store.close()
    holder = sqlite3.connect(store.path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    with Follower() as follower:
        assert states(follower.poll()) == ["locked"]
        assert follower.present() is None
        holder.close()
        assert states(follower.poll()) == ["open"]
