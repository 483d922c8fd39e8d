from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.tasks.builtin import builtin_task
from kforecast.bench.tasks.floor import DeviceRates, compulsory_bytes, floor_us, operations
from kforecast.store.models import Case

RATES = DeviceRates(bandwidth=4e12, operations={"f32": 60e12, "tf32": 480e12, "bf16": 960e12})
ADD, GEMM = builtin_task("vector_add"), builtin_task("gemm_f32")


def test_bytes_are_every_tensor_once_unless_the_task_says() -> None:
    assert compulsory_bytes(ADD, Case(sizes={"N": 1000})) == 12_000
    assert compulsory_bytes(builtin_task("gemm_bf16"), Case(sizes={"M": 2, "N": 3, "K": 5})) == 2 * (10 + 15 + 6)
    assert compulsory_bytes(builtin_task("embedding"), Case(sizes={"V": 10**6, "D": 8, "T": 4})) == 4 * 4 + 4 * 4 * 8
    inout = ADD.model_copy(update={"tensors": (ADD.tensors[0].model_copy(update={"role": "inout"}),)})
    assert compulsory_bytes(inout, Case(sizes={"N": 10})) == 80


def test_operations() -> None:
    assert operations(GEMM, Case(sizes={"M": 2, "N": 3, "K": 5})) == 60
    assert operations(builtin_task("transpose"), Case(sizes={"R": 2, "C": 3})) == 0


def test_a_bandwidth_bound_task_cold_and_warm() -> None:
    case = Case(sizes={"N": 100_000_000})
    assert floor_us(ADD, case, RATES, l2_bytes=0) == pytest.approx(300.0)
    assert floor_us(ADD, case, RATES, l2_bytes=200_000_000) == pytest.approx(250.0)
    warm = floor_us(ADD, case, RATES, l2_bytes=0, cold=False)
    assert warm is not None and warm == pytest.approx(1e8 / 160e12 * 1e6 * 0.5, rel=0.01)


def test_f32_products_may_be_split_over_a_faster_unit() -> None:
    case = Case(sizes={"M": 4096, "N": 4096, "K": 4096})
    assert floor_us(GEMM, case, RATES, 0) == pytest.approx(2 * 4096**3 / 320e12 * 1e6)
    plain = DeviceRates(4e12, {"f32": 60e12})
    assert floor_us(GEMM, case, plain, 0) == pytest.approx(2 * 4096**3 / 60e12 * 1e6)


def test_bf16_uses_its_own_unit_and_unknown_units_bound_nothing() -> None:
    task, case = builtin_task("gemm_bf16"), Case(sizes={"M": 4096, "N": 4096, "K": 4096})
    assert floor_us(task, case, RATES, 1 << 40) == pytest.approx(2 * 4096**3 / 960e12 * 1e6)
    assert floor_us(task, case, DeviceRates(4e12), 1 << 40) == 0


def test_the_empty_launch_is_the_least_and_data_dependent_tasks_have_no_floor() -> None:
    assert floor_us(ADD, Case(sizes={"N": 1}), RATES, 0, launch_us=2.5) == 2.5
    dependent = ADD.model_copy(update={"data_dependent": True})
    assert floor_us(dependent, Case(sizes={"N": 1}), RATES, 0, launch_us=2.5) is None


@given(st.integers(1, 10**8), st.integers(0, 10**9), st.floats(0, 10))
def test_more_cache_never_raises_the_floor_and_warm_is_never_above_cold(n: int, l2: int, launch: float) -> None:
    case = Case(sizes={"N": n})
    less = floor_us(ADD, case, RATES, l2, launch_us=launch)
    more = floor_us(ADD, case, RATES, 2 * l2, launch_us=launch)
    warm = floor_us(ADD, case, RATES, l2, cold=False, launch_us=launch)
    assert less is not None and more is not None and warm is not None
    assert launch <= warm <= more <= less
