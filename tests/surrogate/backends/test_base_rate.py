"""`base-rate` from the task's measured kernels: between nothing known and a measured twin."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.store.models import Kernel
from kforecast.surrogate.backends.base_rate import TaskRate
from kforecast.surrogate.contract import Query, Reply, Sibling

MakeKernel = Callable[..., Kernel]
MakeQuery = Callable[..., Query]
VECTOR = """
extern "C" __global__ void scale(const float4* x, float4* y, int N) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N / 4) { float4 v = x[i]; v.x *= 2.0f; v.y *= 2.0f; v.z *= 2.0f; v.w *= 2.0f; y[i] = v; }
}
"""
LOOP = """
extern "C" __global__ void scale(const float* x, float* y, int N) {
  for (int i = threadIdx.x; i < N; i += blockDim.x) y[i] = x[i] + x[i];
}
"""


def reply(query: Query, *measured: Sibling) -> Reply:
    (found,) = TaskRate(measured).forecast(query).replies
    assert found is not None
    return found


def width(one: Reply) -> float:
    return one.quantile(0.9) - one.quantile(0.1)


def test_without_siblings_it_is_even_and_mostly_near_a_tie(make_query: MakeQuery) -> None:
    found = reply(make_query())
    assert found.p_faster == pytest.approx(0.5)
    assert found.p_bins == pytest.approx(found.p_bins[::-1])
    assert 0.5 < found.p_bins[3] + found.p_bins[4] < 0.8, "most kernels of most recorded tasks lie within sqrt(2)"
    assert found.p_bins[0] + found.p_bins[7] > 0.01, "but some tasks' do not"


@given(st.floats(-3, 3), st.floats(0, 0.5))
def test_measured_the_other_way_round_it_says_the_mirror_image(
    make_query: MakeQuery, make_kernel: MakeKernel, log2: float, half: float
) -> None:
    query, kernel = make_query(), make_kernel(LOOP, BLOCK=64)
    one, other = (
        Sibling(kernel=kernel, log2_speedup=sign * log2, log2_low=sign * log2 - half, log2_high=sign * log2 + half)
        for sign in (1, -1)
    )
    assert reply(query, one).p_bins == pytest.approx(reply(query, other).p_bins[::-1], abs=1e-9)


def test_a_near_sibling_counts_more_than_a_far_one(make_query: MakeQuery, make_kernel: MakeKernel) -> None:
    query = make_query(make_kernel(VECTOR, BLOCK=128))
    near, far = make_kernel(VECTOR, BLOCK=256), make_kernel(LOOP, BLOCK=2048)
    found = [
        reply(query, Sibling(kernel=kernel, log2_speedup=1.5, log2_low=1.45, log2_high=1.55)) for kernel in (near, far)
    ]
    assert found[0].p_faster > found[1].p_faster > 0.5
    assert found[0].p_bins[6] > found[1].p_bins[6]


def test_a_loud_measurement_says_less(make_query: MakeQuery, make_kernel: MakeKernel) -> None:
    query = make_query(make_kernel(VECTOR, BLOCK=128))
    kernel = make_kernel(VECTOR, BLOCK=256)
    quiet, loud, unknown = (
        reply(query, Sibling(kernel=kernel, log2_speedup=1.5, log2_low=low, log2_high=high))
        for low, high in ((1.4, 1.6), (0.5, 2.5), (None, None))
    )
    assert width(quiet) < width(loud) < width(unknown)
