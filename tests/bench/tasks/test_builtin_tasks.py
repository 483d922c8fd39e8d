from __future__ import annotations

import pytest

from kforecast.bench.tasks.builtin import builtin_kernel, builtin_names, builtin_task
from kforecast.bench.tasks.floor import compulsory_bytes
from kforecast.bench.tasks.load import load_task
from kforecast.bench.tasks.shapes import bytes_of
from kforecast.store.errors import InputError

NAMES = {
    "vector_add",
    "bias_gelu",
    "softmax_rows",
    "layernorm",
    "rmsnorm",
    "sum_all",
    "argmax_rows",
    "transpose",
    "gemm_f32",
    "gemm_bf16",
    "gemv",
    "batched_gemm",
    "histogram",
    "scan",
    "stencil2d",
    "conv1d",
    "embedding",
    "cross_entropy",
    "attention",
}


def test_the_built_in_tasks() -> None:
    assert set(builtin_names()) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_built_in_task_loads_and_its_cases_fit_their_purpose(name: str) -> None:
    task = load_task(name)
    assert task is builtin_task(name)
    assert task.name == name and task.title
    for case in task.checked:
        assert sum(bytes_of(tensor, case) for tensor in task.tensors) < 1 << 20, case.name
    assert any(min(case.sizes.values()) == 1 for case in task.checked), "a size of 1"
    assert any(max(case.sizes.values()) % 2 == 1 and max(case.sizes.values()) > 32 for case in task.checked), (
        "odd sizes"
    )
    names = [case.name for case in task.checked]
    assert len(set(names)) == len(names)
    for kind, limit in (("cpu", 32 << 20), ("cuda", 1 << 30)):
        assert task.timed_on(kind)
        for case in task.timed_on(kind):
            assert compulsory_bytes(task, case) <= limit


def test_only_data_movement_and_counting_are_exact() -> None:
    exact = {name for name in NAMES if builtin_task(name).precision is None}
    assert exact == {"argmax_rows", "transpose", "histogram", "embedding"}


def test_kernels_are_found_beside_their_task() -> None:
    for name in NAMES:
        for language, suffix in (("c", ".c"), ("cuda", ".cu")):
            path = builtin_kernel(name, language, "seed")
            assert path is None or (path.is_file() and path.name == f"seed{suffix}" and path.parent.name == name)
    with pytest.raises(InputError, match="Did you mean scan"):
        builtin_kernel("scann", "c", "seed")
