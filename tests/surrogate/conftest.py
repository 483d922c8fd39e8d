"""A small task, and kernels of it, that the surrogate's tests share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kforecast.store.models import Case, Kernel, Launch, Precision, Task, Tensor
from kforecast.surrogate.contract import Query, Side

SOURCE = """
extern "C" __global__ void scale(const float* x, float* y, int N) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) y[i] = 2.0f * x[i];
}
"""
VECTOR = """
extern "C" __global__ void scale(const float4* x, float4* y, int N) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N / 4) { float4 v = x[i]; v.x *= 2.0f; v.y *= 2.0f; v.z *= 2.0f; v.w *= 2.0f; y[i] = v; }
}
"""

MakeKernel = Callable[..., Kernel]
MakeQuery = Callable[..., Query]


@pytest.fixture(scope="session")
def task() -> Task:
    return Task(
        name="scale",
        tensors=(
            Tensor(name="x", role="in", dtype="f32", shape=("N",)),
            Tensor(name="y", role="out", dtype="f32", shape=("N",)),
        ),
        precision=Precision(multiply="f32", accumulate="f32"),
        reference="reference.py:reference",
        reference_source="def reference(xp, inputs, sizes):\n    return {'y': 2 * inputs['x']}\n",
        checked=(Case(sizes={"N": 7}),),
        timed={"any": (Case(sizes={"N": 4096}), Case(sizes={"N": 65536}))},
    )


@pytest.fixture(scope="session")
def make_kernel(task: Task) -> MakeKernel:
    def make(source: str = SOURCE, **tunables: int) -> Kernel:
        launch = Launch(entry="scale", args=("x", "y", "N"), grid=("cdiv(N, BLOCK)",), block=("BLOCK",))
        return Kernel.make(
            language="cuda", name="scale", source=source, launches=(launch,), task_id=task.id, tunables=tunables
        )

    return make


@pytest.fixture(scope="session")
def make_query(task: Task, make_kernel: MakeKernel) -> MakeQuery:
    def make(*candidates: Kernel, **more: object) -> Query:
        sides = tuple(Side(kernel=kernel) for kernel in candidates or (make_kernel(VECTOR, BLOCK=128),))
        settings = {"device": "cuda:0", "device_kind": "cuda", "baseline_us": 12.5, "floor_us": 5.0, **more}
        return Query(task=task, baseline=Side(kernel=make_kernel(SOURCE, BLOCK=256)), candidates=sides, **settings)

    return make
