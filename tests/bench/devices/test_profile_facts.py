"""What follows from a device profile, without a device; measuring one is in test_cuda_profile."""

from __future__ import annotations

from importlib import resources
from types import SimpleNamespace
from typing import Any

import pytest

from kforecast.bench.devices.cuda.profile import build_profile, measure_profile, noise_percent, quick_rates, rates_of
from kforecast.bench.header.signature import signatures
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.bench.tasks.floor import floor_us
from kforecast.store.errors import DeviceError, InputError
from kforecast.store.models import Case

H200: dict[str, Any] = {
    "arch": "sm_90",
    "sm_count": 132,
    "boost_mhz": 1980.0,
    "copy_bandwidth_gbs": 4100.0,
    "read_bandwidth_gbs": 4400.0,
    "fp32_tflops": 60.0,
    "mma_sync_bf16_tflops": 640.0,
    "mma_sync_f64_tflops": 50.0,
}


def test_floors_take_the_faster_bandwidth_and_the_peak_of_the_units() -> None:
    rates = rates_of(H200)
    assert rates.bandwidth == 4400e9
    assert rates.operations["bf16"] == pytest.approx(1070.5e12, rel=1e-3)
    assert rates.operations["f64"] == pytest.approx(66.9e12, rel=1e-3)


def test_a_gemm_at_the_best_published_rate_is_not_below_its_floor() -> None:
    case = Case(sizes={"M": 8192, "N": 8192, "K": 8192})
    floor = floor_us(builtin_task("gemm_bf16"), case, rates_of(H200), 60 << 20)
    fastest_us = 2 * 8192**3 / 989.4e12 * 1e6
    assert floor is not None and 0.85 * fastest_us < floor < fastest_us


@pytest.mark.parametrize("missing", ["copy_bandwidth_gbs", "arch", "sm_count", "boost_mhz"])
def test_a_profile_of_another_version_is_refused_with_a_next_step(missing: str) -> None:
    with pytest.raises(InputError) as caught:
        rates_of({name: value for name, value in H200.items() if name != missing})
    assert "doctor --profile" in caught.value.next_step


def test_noise_is_that_of_neighbours_and_does_not_count_drift() -> None:
    assert noise_percent([100.0, 100.0, 100.0, 100.0]) == 0
    assert noise_percent([100.0, 101.0] * 8) == pytest.approx(1.5, rel=0.05)
    assert noise_percent([100.0 + n * 0.01 for n in range(16)]) < 0.02


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_the_bandwidth_kernels_compile_for_every_architecture(arch: str) -> None:
    assert build_profile("bandwidth.cu", ("fill", "read", "copy"), arch).ok


def test_the_tensor_loops_keep_their_instructions_in_registers() -> None:
    tensor = ("mma_bf16", "mma_f16", "mma_tf32", "mma_f64")
    build = build_profile("profile.cu", (*tensor, "fma_f32", "chase", "shared_read", "global_add"), "sm_90")
    mix = build.facts.instruction_mix
    assert all(mix[name.replace("_", ".")] >= 8 for name in tensor)
    assert mix["fma.f32"] >= 64
    assert all(entry.spill_bytes == 0 and entry.local_bytes in (0, None) for entry in build.facts.entries)


def test_a_kernel_that_the_architecture_lacks_is_the_machinery_s_failure() -> None:
    with pytest.raises(DeviceError):
        build_profile("profile.cu", ("mma_bf16",), "sm_75")


class PretendLauncher:
    """Answers as the launcher does; every call takes 100 us."""

    def __init__(self) -> None:
        self.programs: list[dict[str, Any]] = []
        self.loaded = 0

    def ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        match verb:
            case "load":
                self.loaded += 1
                return {"loaded": [{"module": 0}]}
            case "programs":
                first = len(self.programs)
                self.programs.extend(program["launches"][0] for program in fields["programs"])
                return {"programs": list(range(first, len(self.programs)))}
            case "time":
                return {"times": [[100.0] for _ in fields["samples"]]}
            case "empty":
                return {"times": [[4.0 if fields["calls"] == 1 else 1.5] for _ in range(fields["count"])]}
            case "unload":
                self.loaded -= 1
        return {}


def pretend_lane(launcher: PretendLauncher) -> Any:
    facts = SimpleNamespace(
        name="NVIDIA H200", arch="sm_90", sm_count=132, boost_mhz=1980.0, memory_bytes=150 << 30, l2_bytes=60 << 20
    )
    monitor = SimpleNamespace(read=lambda: {"sm_mhz": 1980, "throttled": ["power cap"]}, describe=dict)
    return SimpleNamespace(
        facts=facts, monitor=monitor, slab_limit=32 << 30, reserve=lambda size: None, launcher=lambda: launcher
    )


def test_every_program_passes_the_arguments_that_its_kernel_takes() -> None:
    launcher = PretendLauncher()
    found = measure_profile(pretend_lane(launcher))
    folder = resources.files("kforecast.bench.devices.cuda")
    text = folder.joinpath("bandwidth.cu").read_text() + folder.joinpath("profile.cu").read_text()
    taken = {
        parsed.name: len(parsed.parameters)
        for parsed in signatures(text.replace('#include "bandwidth.cu"', ""), "cuda", {})
    }
    plain = [launch for launch in launcher.programs if not launch["symbol"].startswith("mma_")]
    assert {launch["symbol"] for launch in plain} >= {"fill", "read", "copy", "chain", "chase", "fma_f32", "global_add"}
    for launch in plain:
        assert len(launch["args"]) == taken[launch["symbol"]], launch["symbol"]
    assert launcher.loaded == 0
    assert found["copy_bandwidth_gbs"] == pytest.approx((2 << 30) / 100e-6 / 1e9)
    assert (found["launch_us"], found["launch_gap_us"], found["throttled"]) == (4.0, 1.5, ["power cap"])
    assert found["l2_latency_ns"] == pytest.approx(100e3 / 32768)


def test_quick_rates_need_three_kernels_only() -> None:
    launcher = PretendLauncher()
    rates = quick_rates(pretend_lane(launcher))
    assert {launch["symbol"] for launch in launcher.programs} == {"fill", "read", "copy"}
    assert rates.bandwidth == pytest.approx((2 << 30) / 100e-6)
    assert rates.operations["bf16"] > 1e15
