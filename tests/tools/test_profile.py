from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kforecast.app.main import run
from kforecast.bench.broker.service import Service
from kforecast.bench.devices.cuda.device import DeviceFacts
from kforecast.store import profiles
from kforecast.store.database import Store
from kforecast.store.errors import InputError, UnsupportedError
from kforecast.tools import doctor as doctor_module
from kforecast.tools.doctor import doctor
from kforecast.tools.probes import Gpu
from kforecast.tools.profile import profile_device, profile_words

UUID = "GPU-00000000-0000-0000-0000-000000000001"
FACTS: dict[str, Any] = {
    "arch": "sm_90",
    "sm_count": 132,
    "boost_mhz": 1980.0,
    "l2_bytes": 60 << 20,
    "copy_bandwidth_gbs": 4123.4,
    "read_bandwidth_gbs": 4400.0,
    "launch_gap_us": 1.234,
    "fp32_tflops": 60.123,
    "mma_sync_bf16_tflops": 640.0,
    "peak_bf16_tflops": 1070.5,
    "noise_pct": 0.123,
}


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(0, "NVIDIA H200", UUID, "580.0", 143771, "9.0")
    facts = DeviceFacts("NVIDIA H200", UUID, "sm_90", 132, 232448, 60 << 20, 150 << 30, 1980.0, False)
    monkeypatch.setattr(doctor_module.probes, "gpus", lambda: [gpu])
    monkeypatch.setattr(doctor_module, "device_facts", lambda ordinal: facts)
    monkeypatch.setattr("kforecast.bench.devices.cuda.lane.device_facts", lambda ordinal: facts)
    monkeypatch.setattr("kforecast.bench.devices.cuda.lane.require_packages", lambda: None)
    monkeypatch.setattr("kforecast.bench.devices.cuda.lane.CudaLane.warm_up", lambda lane: None)


def test_words_have_units_and_leave_out_what_was_not_measured() -> None:
    lines = dict(profile_words(FACTS))
    assert lines["memory"] == "copy 4,123 GB/s, read 4,400 GB/s"
    assert lines["L2"] == "60 MiB"
    assert lines["launch"] == "1.23 us each in a graph"
    assert lines["fp32"] == "60.1 TFLOPS"
    assert lines["mma.sync"] == "bf16 640 TFLOPS" and lines["peak"] == "bf16 1.07e+03 TFLOPS"
    assert "shared memory" not in lines and profile_words({}) == []


def test_the_cpu_has_no_device_profile() -> None:
    with Store.open() as store, pytest.raises(UnsupportedError):
        profile_device("cpu", store)


def test_doctor_says_how_to_measure_a_profile_and_then_shows_it_with_its_date(one_gpu: None) -> None:
    before = {check.name: check for check in doctor().checks if check.group == "device profile"}
    assert before["cuda:0 profile"].state == "note" and "doctor --profile" in str(before["cuda:0 profile"].next)
    with Store.open() as store:
        profiles.save(store, "GPU-of-another-machine", profiles.DEVICE, {"copy_bandwidth_gbs": 1.0})
        profiles.save(store, UUID, profiles.DEVICE, {**FACTS, "copy_bandwidth_gbs": 1.0})
        newest = profiles.save(store, UUID, profiles.DEVICE, FACTS)
    report = doctor()
    after = {check.name: check for check in report.checks if check.group == "device profile"}
    assert newest.created_at[:10] in after["cuda:0 profile"].value
    assert "4,123 GB/s" in after["  memory"].value
    assert report.profiles == (newest,)
    assert not any(name.strip() == "memory" for name in report.usable_devices)


@pytest.mark.usefixtures("one_gpu")
def test_doctor_says_whether_device_code_reads_host_memory(capsys: pytest.CaptureFixture[str]) -> None:
    run(["doctor"])
    assert "pageableMemoryAccess 0" in capsys.readouterr().out


@pytest.mark.usefixtures("one_gpu")
def test_the_broker_s_lane_takes_its_floors_from_the_newest_stored_profile(tmp_path: Path) -> None:
    with Store.open() as store:
        fresh = Service(store, "cuda:0", "test")._open()
        assert fresh.rates is None  # type: ignore[attr-defined]
        profiles.save(store, UUID, profiles.DEVICE, FACTS)
        lane = Service(store, "cuda:0", "test")._open()
        assert lane.rates.bandwidth == 4400e9  # type: ignore[attr-defined]
        assert lane.rates.operations["bf16"] == pytest.approx(1070.5e12, rel=1e-3)  # type: ignore[attr-defined]
        profiles.save(store, UUID, profiles.DEVICE, {"of": "another version"})
        with pytest.raises(InputError):
            Service(store, "cuda:0", "test")._open()
