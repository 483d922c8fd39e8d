"""The device profile, and NVIDIA's tools over the standalone process, on a machine that has a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from measured import measured

from kforecast.bench.devices.cuda.inspection import find_tool, profile, sanitize
from kforecast.bench.devices.cuda.lane import CudaLane
from kforecast.bench.devices.cuda.peaks import peak_rates
from kforecast.bench.devices.cuda.profile import measure_profile, quick_rates, rates_of
from kforecast.bench.header.signature import signatures
from kforecast.bench.lane import Program
from kforecast.bench.tasks.builtin import builtin_kernel, builtin_task
from kforecast.store.models import Kernel, Launch

pytestmark = pytest.mark.gpu
ADD = builtin_task("vector_add")


@pytest.fixture(scope="module")
def lane() -> Iterator[CudaLane]:
    lane = CudaLane(0)
    yield lane
    lane.close()


@pytest.fixture(scope="module")
def facts(lane: CudaLane) -> dict[str, Any]:
    return measure_profile(lane)


def test_memory_gets_faster_the_nearer_it_is(facts: dict[str, Any]) -> None:
    assert facts["shared_latency_ns"] < facts["l2_latency_ns"] < facts["global_latency_ns"]
    fastest = max(facts["read_bandwidth_gbs"], facts["copy_bandwidth_gbs"])
    assert fastest < facts["l2_bandwidth_gbs"] < facts["shared_bandwidth_gbs"]
    assert 0.6 < facts["copy_bandwidth_gbs"] / facts["read_bandwidth_gbs"] < 1.3


def test_launches_and_atomics_are_cheaper_together_and_apart(facts: dict[str, Any]) -> None:
    assert 0 < facts["launch_gap_us"] < facts["launch_us"]
    assert facts["global_atomic_one_word_gops"] < facts["global_atomic_gops"] < facts["shared_atomic_gops"]


def test_no_unit_is_faster_than_its_peak_and_none_is_idle(facts: dict[str, Any]) -> None:
    peaks = peak_rates(facts["arch"], facts["sm_count"], facts["boost_mhz"])
    measured_tflops = {unit: facts.get(f"mma_sync_{unit}_tflops") for unit in ("bf16", "f16", "tf32", "f64")}
    measured_tflops["f32"] = facts["fp32_tflops"]
    for unit, tflops in measured_tflops.items():
        if tflops is not None and unit in peaks:
            assert 0.2 < tflops * 1e12 / peaks[unit] < 1.05, unit


def test_the_quick_rates_agree_with_the_profile(lane: CudaLane, facts: dict[str, Any]) -> None:
    quick, full = quick_rates(lane), rates_of(facts)
    assert quick.bandwidth == pytest.approx(full.bandwidth, rel=0.1)
    assert set(quick.operations) == set(full.operations)


def test_a_lane_without_a_profile_still_knows_the_floor() -> None:
    path = builtin_kernel("softmax_rows", "cuda", "tuned")
    assert path is not None
    lane = CudaLane(0)
    try:
        found = measured(path, lane)
    finally:
        lane.close()
    assert found.verdict == "ok" and found.quarantine is None
    assert found.percent_of_floor is not None and 20 < found.percent_of_floor < 111


def program(lane: CudaLane, source: str, *args: str) -> Program:
    launch = Launch(entry="add", args=args, grid=("cdiv(N, 256)",), block=("256",))
    kernel = Kernel.make(language="cuda", name="add.cu", source=source, launches=(launch,), task_id=ADD.id)
    parsed = tuple(signatures(source, "cuda", {}))
    build = lane.compile(kernel, parsed)
    assert build.ok, build.facts.error
    return Program(kernel, parsed, build)


HEAD = 'extern "C" __global__ void add(const float* a, const float* b, float* c, int N) {'
HONEST = HEAD + " int i = blockIdx.x * 256 + threadIdx.x; if (i < N) c[i] = a[i] + b[i]; }"
BEYOND = (
    HEAD
    + " int i = blockIdx.x * 256 + threadIdx.x; float v = ((const volatile float*)a)[i]; if (i < N) c[i] = v + b[i]; }"
)
RACY = (
    HEAD
    + """ __shared__ float s[256]; int i = blockIdx.x * 256 + threadIdx.x; int t = threadIdx.x;
    s[t] = i < N ? a[i] + b[i] : 0.0f;
    float other = s[(t + 64) & 255];
    if (i < N) c[i] = a[i] + b[i] + 0.0f * other; }"""
)


def test_counters_in_words_or_the_reason_why_not(lane: CudaLane) -> None:
    seen = profile(program(lane, HONEST, "a", "b", "c", "N"), ADD, lane.constants, 0, lane.facts.arch)
    assert seen.notes
    if find_tool("ncu") is None or "no profile" in seen.notes[0]:
        assert "no profile" in seen.notes[0]
    else:
        assert "DRAM at" in seen.notes[0] and "registers" in seen.notes[0]


@pytest.mark.skipif(find_tool("compute-sanitizer") is None, reason="needs compute-sanitizer")
def test_memcheck_and_racecheck_find_what_a_right_answer_hides(lane: CudaLane) -> None:
    odd = ADD.model_copy(update={"checked": tuple(case for case in ADD.checked if case.sizes["N"] % 256)[:1]})
    assert odd.checked
    clean = sanitize(program(lane, HONEST, "a", "b", "c", "N"), odd, lane.constants, 0)
    assert clean.quarantine is None and clean.labels == ()
    assert clean.notes == ("compute-sanitizer: memcheck and racecheck found nothing on a small case",)
    beyond = sanitize(program(lane, BEYOND, "a", "b", "c", "N"), odd, lane.constants, 0)
    assert beyond.quarantine is not None and "Invalid __global__ read" in beyond.quarantine
    racy = sanitize(program(lane, RACY, "a", "b", "c", "N"), odd, lane.constants, 0)
    assert racy.labels == ("race",) and racy.quarantine is None
