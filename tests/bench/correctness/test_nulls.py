from __future__ import annotations

import pytest

from kforecast.bench.correctness.nulls import NULL_NAMES, assert_testable, passing_nulls
from kforecast.bench.tasks.builtin import builtin_names, builtin_task
from kforecast.bench.tasks.load import task_from_table
from kforecast.store.errors import InputError
from kforecast.store.models import Case

TIMED_CLASS = {
    "vector_add": {"N": 100_000},
    "bias_gelu": {"R": 128, "C": 512},
    "softmax_rows": {"R": 64, "C": 1024},
    "layernorm": {"R": 64, "C": 1024},
    "rmsnorm": {"R": 64, "C": 1024},
    "sum_all": {"N": 1000},
    "argmax_rows": {"R": 4096, "C": 512},
    "transpose": {"R": 256, "C": 384},
    "gemm_f32": {"M": 96, "N": 128, "K": 256},
    "gemm_bf16": {"M": 96, "N": 128, "K": 256},
    "gemv": {"M": 256, "K": 1024},
    "batched_gemm": {"G": 8, "M": 64, "N": 64, "K": 64},
    "histogram": {"N": 200_000, "BINS": 256},
    "scan": {"N": 100_000},
    "stencil2d": {"H": 128, "W": 512},
    "conv1d": {"G": 2, "C": 16, "L": 2048, "T": 4},
    "embedding": {"V": 1024, "D": 128, "T": 1024},
    "cross_entropy": {"R": 128, "C": 1024},
    "attention": {"H": 2, "S": 192, "D": 64},
}


@pytest.mark.parametrize("name", builtin_names())
def test_every_built_in_task_rejects_every_null_kernel(name: str) -> None:
    assert_testable(builtin_task(name), seed=11)


@pytest.mark.parametrize("name", builtin_names())
def test_every_null_kernel_fails_the_timed_cases_alone(name: str) -> None:
    assert passing_nulls(builtin_task(name), Case(sizes=TIMED_CLASS[name]), seed=12) == frozenset()


@pytest.mark.parametrize("name", builtin_names())
def test_nulls_fail_every_plain_checked_case_that_is_not_trivially_small(name: str) -> None:
    task = builtin_task(name)
    allowed = {
        # Fewer bits change which element is largest in few rows; the last columns rarely hold the maximum of few rows.
        "argmax_rows": {"lower precision", "last terms missing"},
        # A border is a copy; a stencil without an inside is all border.
        "stencil2d": {"input copy"},
        "transpose": {"input copy"},
        "sum_all": {"lower precision"},
        "cross_entropy": {"lower precision"},
    }.get(name, set())
    for case in task.checked:
        sizes = sorted(case.sizes.values())
        if case.fill or (sizes[0] == 1 and sizes[-1] <= 31) or sizes[-1] == 2:
            continue
        assert passing_nulls(task, case, seed=13) <= allowed, case.name


def test_a_task_whose_output_never_changes_is_refused_by_the_name_of_the_null() -> None:
    task = task_from_table(
        {
            "name": "always_zero",
            "in": {"x": {"dtype": "f32", "shape": ["N"], "fill": "zeros"}},
            "out": {"y": {"dtype": "f32", "shape": ["N"]}},
            "reference": "einsum: n->n",
            "checked": [{"N": 40}],
            "timed": [{"N": 40}],
        },
        folder=None,
        where="test",
    )
    with pytest.raises(InputError, match="zeros") as caught:
        assert_testable(task)
    assert set(str(caught.value.value).split(", ")) <= set(NULL_NAMES)
