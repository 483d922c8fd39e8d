"""The two examples of the kernel-header documentation, each with its task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from kforecast.bench.header.load import LoadedKernel, load_kernel
from kforecast.store.errors import InputError
from kforecast.store.models import Case, Precision, Task, Tensor

settings.register_profile("no deadline", deadline=None)  # a busy machine is no failure
settings.load_profile("no deadline")

SOFTMAX = """\
/* kforecast 1
task = "softmax_rows"                  # built in: x[R,C] f32 -> y[R,C] f32; gives the names x, y, R, C
[[launch]]
entry = "softmax_rows"
args  = ["x", "y", "R", "C"]           # in parameter order
grid  = ["R"]                          # x, y, z in blocks
block = ["BLOCK"]
smem  = "4 * (BLOCK // 32)"            # dynamic shared memory, bytes
[tune]                                 # first value = default; passed as -DBLOCK=256
BLOCK = [256, 128, 512, 1024]
VEC   = [4, 1, 2]
when  = ["BLOCK * VEC <= 4096"]
*/
extern "C" __global__ void __launch_bounds__(BLOCK) softmax_rows(
    const float* __restrict__ x, float* __restrict__ y, int R, int C) {
  extern __shared__ float partial[];
  for (int c = threadIdx.x * VEC; c < C; c += BLOCK * VEC) y[c] = x[c];
}
"""

GEMM = """\
/* kforecast 1
include = ["mma_tile.cuh"]             # beside this file, hashed into the kernel's id
[task]
name = "gemm_bf16_nt"
in.A  = { dtype = "bf16", shape = ["M", "K"], fill = "normal" }
in.B  = { dtype = "bf16", shape = ["N", "K"], fill = "normal" }
out.C = { dtype = "bf16", shape = ["M", "N"] }
reference = "einsum: mk,nk->mn"        # or "gemm.py:reference"
precision = { multiply = "bf16", accumulate = "f32" }
flops = "2 * M * N * K"                # bytes: every input once, every output once, unless said
timed   = [{ M = 4096, N = 4096, K = 4096 }, { M = 8192, N = 1024, K = 4096 }]
checked = [{ M = 257, N = 129, K = 70 }, { M = 1, N = 1, K = 1 }]
[scratch]
W = { dtype = "f32", shape = ["SPLIT", "M", "N"] }   # poisoned; zero = true adds a timed memset
[[launch]]
entry = "gemm_part<BM, BN, BK>"        # template: an NVRTC name expression
args  = ["A", "B", "W", "M", "N", "K", "SPLIT"]
grid  = ["cdiv(N, BN)", "cdiv(M, BM)", "SPLIT"]
block = [256]
smem  = "2 * 2 * (BM + BN) * BK"
[[launch]]
entry = "sum_parts"
args  = ["W", "C", "M * N", "SPLIT"]
grid  = ["cdiv(M * N, 1024)"]
block = [256]
[tune]
BM = [128, 64, 256]
BN = [128, 64]
BK = [32, 64]
SPLIT = [1, 2, 4]
when = ["2 * 2 * (BM + BN) * BK <= SMEM_MAX"]
*/
#include <cuda_bf16.h>
#include "mma_tile.cuh"

template <int BM, int BN, int BK>
__global__ void gemm_part(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
                          float* __restrict__ W, int M, int N, int K, int split) {
  tile<BM, BN, BK>(A, B, W);
}

__global__ void sum_parts(const float* W, __nv_bfloat16* C, long long n, int split) { }
"""

TASKS = {
    "softmax_rows": Task(
        name="softmax_rows",
        tensors=(
            Tensor(name="x", role="in", dtype="f32", shape=("R", "C")),
            Tensor(name="y", role="out", dtype="f32", shape=("R", "C")),
        ),
        precision=Precision(multiply="f32", accumulate="f32"),
        reference="reference",
        checked=(Case(sizes={"R": 7, "C": 33}),),
        timed={"any": (Case(sizes={"R": 4096, "C": 1024}),)},
    ),
    "gemm_bf16_nt": Task(
        name="gemm_bf16_nt",
        tensors=(
            Tensor(name="A", role="in", dtype="bf16", shape=("M", "K")),
            Tensor(name="B", role="in", dtype="bf16", shape=("N", "K")),
            Tensor(name="C", role="out", dtype="bf16", shape=("M", "N")),
        ),
        precision=Precision(multiply="bf16", accumulate="f32"),
        reference="einsum: mk,nk->mn",
        checked=(Case(sizes={"M": 257, "N": 129, "K": 70}),),
        timed={"any": (Case(sizes={"M": 4096, "N": 4096, "K": 4096}),)},
    ),
}


def resolve_task(declared: str | dict[str, Any], _folder: Path | None) -> Task:
    """The tasks room, as far as these tests need it."""
    name = declared if isinstance(declared, str) else declared["name"]
    if name not in TASKS:
        raise InputError("no such task", value=name, next_step="Name one that exists.")
    return TASKS[name]


@pytest.fixture
def tasks() -> dict[str, Task]:
    return TASKS


@pytest.fixture
def softmax_source() -> str:
    return SOFTMAX


@pytest.fixture
def gemm_file(tmp_path: Path) -> Path:
    """The second example as a file, with the file it includes beside it."""
    (tmp_path / "mma_tile.cuh").write_text("template <int M, int N, int K> __device__ void tile(...) { }\n")
    path = tmp_path / "gemm.cu"
    path.write_text(GEMM)
    return path


@pytest.fixture
def load() -> Callable[..., LoadedKernel]:
    """`load_kernel` with the tasks of these tests."""

    def load_with_tasks(path_or_text: str | Path, **arguments: Any) -> LoadedKernel:
        return load_kernel(path_or_text, **{"resolve_task": resolve_task, **arguments})

    return load_with_tasks
