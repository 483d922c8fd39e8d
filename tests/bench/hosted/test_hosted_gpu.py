"""The host-code lane on a GPU: verdicts, isolation, and that answering early does not pay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from kforecast.bench.devices.catalogue import open_hosted
from kforecast.bench.hosted.device_code import NOTE
from kforecast.bench.lane import Lane
from kforecast.bench.languages.torch import peer_kernel, reference_kernel
from kforecast.bench.measuring import Job, measure
from kforecast.bench.tasks.builtin import builtin_kernel, builtin_names
from kforecast.bench.tasks.peers import peer_task
from kforecast.store.database import Store
from kforecast.store.models import Measurement
from kforecast.tools.kernels import Asked, find_baseline, load_file

pytestmark = pytest.mark.gpu
EXPLOITS = Path(__file__).parents[2] / "exploits"


@pytest.fixture(scope="module")
def gpu() -> Iterator[Lane]:
    torch = pytest.importorskip("torch")
    if torch.version.cuda is None:
        pytest.skip("this PyTorch has no CUDA")
    lane = open_hosted("cuda:0")
    yield lane
    lane.close()


def run(lane: Lane, path: Path, *, against_reference: bool = False) -> Measurement:
    task = peer_task(EXPLOITS / "torch" / "problem.py")
    assert task is not None
    baseline = reference_kernel(task) if against_reference else None
    job = Job(task, peer_kernel(path.read_text(), path.name, task), baseline, "quick", call_deadline_s=10.0)
    return measure(job, lane, device_lock=nullcontext)


def test_a_problem_against_itself(gpu: Lane) -> None:
    result = run(gpu, EXPLOITS / "torch" / "problem.py", against_reference=True)
    assert result.verdict == "ok", (result.reason, result.diagnostics)
    assert result.log2_speedup is not None
    assert result.isolation.startswith("process")


@pytest.mark.parametrize("name", ["streams_where_there_are", "graph_where_there_is", "in_place", "threads"])
def test_honest_programs(gpu: Lane, name: str) -> None:
    result = run(gpu, EXPLOITS / "honest" / "torch" / f"{name}.py")
    assert result.verdict == "ok", (result.reason, result.diagnostics)


@pytest.mark.parametrize("name", ["answers_before_the_device", "stale_output", "mutates_input", "low_precision"])
def test_attacks(gpu: Lane, name: str) -> None:
    assert run(gpu, EXPLOITS / "torch" / f"{name}.py").verdict in ("incorrect", "tampered", "crashed")


SHARED = """/* kforecast 1
task = "vector_add"
[scratch]
W = { dtype = "f32", shape = ["N"] }
[[launch]]
entry = "first"
args = ["a", "W", "N"]
grid = ["cdiv(N, 256)"]
block = [256]
smem = "65536"
[[launch]]
entry = "second"
args = ["W", "b", "c", "N"]
grid = ["cdiv(N, 256)"]
block = [256]
*/
extern "C" __global__ void first(const float* a, float* W, int N) {
  extern __shared__ float kept[];
  const int i = blockIdx.x * 256 + threadIdx.x;
  kept[16384 - 256 + threadIdx.x] = i < N ? a[i] : 0.0f;
  __syncthreads();
  if (i < N) W[i] = kept[16384 - 256 + threadIdx.x];
}
extern "C" __global__ void second(const float* W, const float* b, float* c, int N) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < N) c[i] = W[i] + b[i];
}
"""
TRITON = Path(__file__).parents[3] / "examples" / "softmax_triton.py"


def against_library(lane: Lane, kernel: Path | str) -> Measurement:
    candidate = load_file(kernel, Asked())
    with Store.open() as store:
        library, _ = find_baseline(store, "library", candidate)
    assert library is not None
    job = Job(candidate.task, candidate.kernel, library.kernel, "quick", call_deadline_s=10.0, time_cap_s=3.0)
    return measure(job, lane, device_lock=nullcontext)


@pytest.mark.parametrize("task", [name for name in builtin_names() if builtin_kernel(name, "torch", "library")])
def test_seeds_against_the_library(gpu: Lane, task: str) -> None:
    path = builtin_kernel(task, "cuda", "seed")
    assert path is not None
    result = against_library(gpu, path)
    assert result.verdict == "ok", (result.reason, result.diagnostics)
    assert (result.lane, result.launch_mode, NOTE in result.notes) == ("host-code", "process", True)
    assert result.log2_speedup is not None
    assert result.baseline_us is not None


def test_scratch_two_launches_and_64_kib_of_shared_memory(gpu: Lane) -> None:
    result = against_library(gpu, SHARED)
    assert result.verdict == "ok", (result.reason, result.diagnostics)
    assert "library" not in result.labels


def test_a_wrong_kernel_is_incorrect_in_this_lane_too(gpu: Lane) -> None:
    result = against_library(gpu, SHARED.replace("W[i] + b[i]", "W[i] + 1.001f * b[i]"))
    assert (result.verdict, result.mismatch is not None) == ("incorrect", True)


def test_a_kernel_that_faults_takes_its_own_process_down_alone(gpu: Lane) -> None:
    result = against_library(gpu, SHARED.replace("if (i < N) c[i] =", "c[i + (1ll << 40)] ="))
    assert result.verdict == "crashed"
    assert against_library(gpu, SHARED).verdict == "ok"


def test_a_triton_kernel_against_the_library(gpu: Lane) -> None:
    pytest.importorskip("triton")
    result = against_library(gpu, TRITON)
    assert result.verdict == "ok", (result.reason, result.diagnostics)


def test_a_pytorch_program_against_a_cuda_kernel(gpu: Lane) -> None:
    library, seed = builtin_kernel("gemm_f32", "torch", "library"), builtin_kernel("gemm_f32", "cuda", "seed")
    assert library is not None
    assert seed is not None
    candidate, baseline = load_file(library, Asked()), load_file(seed, Asked())
    result = measure(
        Job(candidate.task, candidate.kernel, baseline.kernel, "quick", time_cap_s=3.0), gpu, device_lock=nullcontext
    )
    assert (result.verdict, "library" in result.labels, NOTE in result.notes) == ("ok", True, True)


OWN = """# /// kforecast 1
# task = "vector_add"
# [[launch]]
# entry = "add"
# args = ["a", "b"]
# ///
import torch
import triton
import triton.language as tl


@triton.jit
def add_of_mine(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(a + at, at < n) + tl.load(b + at, at < n), at < n)


def add(a, b):
    c = torch.empty_like(a)
    add_of_mine[(triton.cdiv(a.numel(), 1024),)](a, b, c, a.numel(), 1024)
    return c
"""


@pytest.mark.parametrize(("body", "own"), [(OWN, True), (OWN.replace("return c", "return a + b"), False)])
def test_profiles_tell_whose_kernels_ran(gpu: Lane, body: str, own: bool) -> None:
    pytest.importorskip("triton")
    body = body if own else body.replace("    add_of_mine[", "    0 and add_of_mine[")
    named = load_file(body, Asked())
    job = Job(named.task, named.kernel, None, "quick", time_cap_s=3.0, profile=True)
    result = measure(job, gpu, device_lock=nullcontext)
    assert result.verdict == "ok", (result.reason, result.diagnostics)
    (note,) = (note for note in result.notes if note.startswith("GPU time of one call"))
    assert ("100% in kernels that its own text defines (add_of_mine" in note) == own, note
    assert ("fallback" in result.labels) == (not own)
