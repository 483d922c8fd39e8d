"""Devices as people watch them, with a GPU that is made up."""

from __future__ import annotations

import os
import time
from typing import Any

from grown import TASK, Grown, kernel

from kforecast.bench.broker.lock import device_lock
from kforecast.bench.devices.cuda.monitor import Monitor
from kforecast.store import kernels, measurements, profiles, requests
from kforecast.store.clock import utc_now
from kforecast.store.identity import new_id
from kforecast.store.models import Measurement
from kforecast.tools.probes import Gpu
from kforecast.tools.viewing.machine import DeviceReader, Snapshot

GPU = Gpu(0, "NVIDIA Test", "GPU-1", "580", 1024, "9.0")


class FakeMonitor(Monitor):
    """Reads what a test says."""

    temperature = 35

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal

    @property
    def available(self) -> bool:
        return True

    def describe(self) -> dict[str, Any]:
        return {"gpu": "NVIDIA Test", "uuid": "GPU-1", "driver": "580", "power_limit_w": 700.0}

    def read(self) -> dict[str, Any]:
        return {"sm_mhz": 1980, "temperature_c": self.temperature, "power_w": 137.6, "throttled": ["power cap"]}

    def processes(self) -> list[int]:
        return [4711]


def reader() -> DeviceReader:
    return DeviceReader(probe=lambda: [GPU], monitor=FakeMonitor)


def looked(one: DeviceReader, grown: Grown, key: str | None = None) -> Snapshot:
    found = one.look(grown.store, key)
    deadline = time.monotonic() + 20
    while found.looking and time.monotonic() < deadline:
        time.sleep(0.005)
        found = one.look(grown.store, key)
    return found


def save(grown: Grown, **changes: Any) -> None:
    kernels.save(grown.store, kernel(1))
    fields: dict[str, Any] = {
        "id": new_id("m"), "kernel_id": kernel(1).id, "task_id": TASK.id, "task_name": TASK.name, "device": "cuda:0",
        "device_id": "GPU-1", "lane": "device-only", "launch_mode": "stream", "effort": "quick", "verdict": "ok",
        "reason": "", "time_us": 1.0, "noise_pct": 0.5, "device_seconds": 2.0, "created_at": utc_now(),
        "environment": {"gpu": "NVIDIA Test", "states": [{"sm_mhz": 1980, "temperature_c": 40, "throttled": ["x"]}]},
    }  # fmt: skip
    measurements.save(grown.store, Measurement(**{**fields, **changes}))


def test_the_machines_devices_come_first_then_those_the_store_knows(grown: Grown) -> None:
    save(grown)
    save(grown, device_id="GPU-far", environment={"gpu": "NVIDIA Far"})
    found = looked(reader(), grown)
    assert [(one.device, one.model, one.here, one.measured) for one in found.devices][1:] == [
        ("cuda:0", "NVIDIA Test", True, 1),
        ("cuda:0", "NVIDIA Far", False, 1),
    ]
    assert found.devices[0].device == "cpu" and found.devices[0].here


def test_a_gpus_state_is_read_and_kept(grown: Grown) -> None:
    one = reader()
    found = looked(one, grown, "cuda:0 GPU-1")
    found = one.look(grown.store, "cuda:0 GPU-1")
    assert found.about is not None
    state = dict(found.about.state)
    assert (state["temperature_c"], state["power_w"], state["throttled"]) == ("35 C", "138 W", "power cap")
    assert state["processes"] == "4711"
    assert dict(found.about.facts) == {"driver": "580", "power limit w": "700.0"}
    assert found.about.samples[-1].values == {"sm_mhz": 1980.0, "temperature_c": 35.0, "power_w": 137.6}


def test_what_measurements_noted_and_what_the_day_took(grown: Grown) -> None:
    for noise in (0.5, 0.7):
        save(grown, noise_pct=noise)
    save(grown, created_at="2020-01-01T00:00:00.000000Z", noise_pct=0.1)
    found = looked(reader(), grown, "cuda:0 GPU-1")
    one = looked(reader(), grown, "cuda:0 GPU-1").about
    assert found.about is not None and one is not None
    assert set(one.recorded.noise_pct) == {0.5, 0.7, 0.1}
    assert (one.recorded.measurements, one.recorded.device_seconds) == (2, 4.0)
    assert one.recorded.temperature_c == (40.0, 40.0, 40.0)
    assert one.recorded.throttled == 3


def test_a_profile_is_told_in_words(grown: Grown) -> None:
    profiles.save(grown.store, "GPU-1", profiles.DEVICE, {"copy_bandwidth_gbs": 4200.0})
    for _ in range(2):
        found = looked(reader(), grown, "cuda:0 GPU-1")
    assert found.about is not None
    assert found.about.profile == (("memory", "copy 4,200 GB/s"),)


def test_the_queue_in_the_order_of_beginning_and_who_holds_the_device(grown: Grown) -> None:
    for number in range(3):
        requests.enqueue(grown.store, device="cpu", payload={"kernel_id": kernel(0).id}, client=f"cli:{number}:1")
    requests.claim(grown.store, requests.queue(grown.store, "cpu", limit=1)[0].id, "broker-1")
    with device_lock("cpu-viewing", device="cpu", purpose="a test"):
        found = looked(reader(), grown)
    assert [(one.state, one.before) for one in found.queue] == [("working", None), ("queued", 0), ("queued", 1)]
    assert {one.kernel for one in found.queue} == {"k0.c"}
    assert (found.devices[0].working, found.devices[0].waiting, found.waiting) == (1, 2, 3)
    holder = found.devices[0].holder
    assert holder is not None and (holder.pid, holder.purpose) == (os.getpid(), "a test")
    assert found.about is not None and found.about.line.key == found.devices[0].key


def test_a_long_queue_is_listed_in_part(grown: Grown) -> None:
    with grown.store.write() as db:
        db.executemany(
            "INSERT INTO requests (id, kind, device, client, state, progress, attempts, payload, created_at, ordinal, "
            "seq) VALUES (?, 'measure', 'cpu', 'c', 'queued', '', 0, '{}', '2026-01-01T00:00:00Z', ?, ?)",
            [(f"r_{number}", number, number) for number in range(1, 1001)],
        )
    found = looked(reader(), grown)
    assert (found.waiting, len(found.queue)) == (1000, 200)
    assert found.queue[0].before == 0 and found.queue[-1].before is None
