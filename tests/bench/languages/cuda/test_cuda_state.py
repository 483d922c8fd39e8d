"""Writable device variables: what a kernel could keep between launches."""

from __future__ import annotations

import pytest

from kforecast.bench.languages.cuda.compile import compile_cuda
from kforecast.store.models import Kernel, Launch


def labels(body: str, before: str = "") -> tuple[str, ...]:
    source = f'{before}\nextern "C" __global__ void k(float* y, int n) {{ {body} }}\n'
    kernel = Kernel.make(
        language="cuda", name="k.cu", source=source, launches=(Launch(entry="k", args=()),), task_id="t"
    )
    build = compile_cuda(kernel, arch="sm_90")
    assert build.ok, build.log
    return build.facts.labels


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("__device__ float kept[64];", "kept[threadIdx.x] = y[0]; y[1] = kept[threadIdx.x ^ 1];"),
        ("__device__ int calls;", "if (atomicAdd(&calls, 1) > 0) y[0] = 1;"),
        ("__device__ int calls = 7;", "calls = n; y[0] = calls;"),
        ("__device__ float* kept;", "if (!kept) kept = y; y[0] = kept[1];"),
    ],
)
def test_memory_that_outlives_a_launch_is_stateful(before: str, body: str) -> None:
    assert "stateful" in labels(body, before)


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("", "y[n] = 1;"),
        ("__device__ const float table[4] = {1, 2, 3, 4};", "y[n] = table[n & 3];"),
        ("__constant__ float table[4];", "y[n] = table[n & 3];"),
        ("#include <cuda/std/limits>", "y[n] = cuda::std::numeric_limits<float>::max();"),
        ("", "__shared__ float s[32]; s[threadIdx.x] = y[n]; __syncthreads(); y[n] = s[threadIdx.x ^ 1];"),
    ],
)
def test_tables_constants_and_shared_memory_are_not(before: str, body: str) -> None:
    assert "stateful" not in labels(body, before)
