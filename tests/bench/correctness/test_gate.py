from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kforecast.bench.correctness.compare import FloatExpectation
from kforecast.bench.correctness.gate import Expectation, expect
from kforecast.bench.correctness.poison import fill_poison
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.bench.tasks.inputs import make_inputs
from kforecast.bench.tasks.load import task_from_table
from kforecast.store.errors import InputError
from kforecast.store.models import Case, Mismatch, Task

Arrays = dict[str, Any]


def setting(name: str, fill: dict[str, str] | None = None, **sizes: int) -> tuple[Arrays, Expectation]:
    task, case = builtin_task(name), Case(sizes=sizes, fill=fill or {})
    inputs = make_inputs(task, case, seed=1)
    return inputs, expect(task, case, inputs)


def rejected(expectation: Expectation, outputs: Arrays) -> Mismatch:
    mismatch = expectation.check(outputs)
    assert mismatch is not None
    return mismatch


def inline(**changes: Any) -> Task:
    table: dict[str, Any] = {
        "name": "inline",
        "in": {"x": {"dtype": "f32", "shape": ["N"]}},
        "out": {"y": {"dtype": "f32", "shape": ["N"]}},
        "reference": "einsum: n->n",
        "checked": [{"N": 40}],
        "timed": [{"N": 40}],
    }
    return task_from_table({**table, **changes}, folder=None, where="test")


def test_one_wrong_element_of_many_is_found_and_named() -> None:
    inputs, expectation = setting("vector_add", N=3_000_000)
    out = inputs["a"] + inputs["b"]
    assert expectation.check({"c": out}) is None
    out[2_345_678] += 0.01
    mismatch = rejected(expectation, {"c": out})
    assert (mismatch.tensor, mismatch.index, mismatch.wrong, mismatch.total) == ("c", (2_345_678,), 1, 3_000_000)
    assert mismatch.case == "N=3000000"
    assert mismatch.error is not None and mismatch.limit is not None and mismatch.error > mismatch.limit
    assert float(mismatch.got) == pytest.approx(float(out[2_345_678]), rel=1e-6)
    assert float(mismatch.want) == pytest.approx(float(out[2_345_678]) - 0.01, rel=1e-4)


@pytest.mark.parametrize("shape, dtype", [((7, 33), np.float64), ((33, 7), np.float32), ((7, 1), np.float32)])
def test_another_shape_or_dtype_is_wrong_whatever_it_holds(shape: tuple[int, ...], dtype: Any) -> None:
    _, expectation = setting("softmax_rows", R=7, C=33)
    mismatch = rejected(expectation, {"y": np.zeros(shape, dtype)})
    assert mismatch.got == f"{np.dtype(dtype)}{list(shape)}"
    assert mismatch.want == "f32[7, 33]"


def test_a_missing_output_is_wrong() -> None:
    _, expectation = setting("softmax_rows", R=7, C=33)
    assert rejected(expectation, {}).got == "nothing"


def test_nan_is_right_only_where_it_is_wanted() -> None:
    inputs, expectation = setting("vector_add", {"b": "nan_one"}, N=500)
    out = inputs["a"] + inputs["b"]
    (at,) = np.flatnonzero(np.isnan(out))
    assert expectation.check({"c": out}) is None
    assert rejected(expectation, {"c": np.where(np.isnan(out), np.float32(1), out)}).index == (at,)
    assert rejected(expectation, {"c": np.where(np.isnan(out), np.float32(np.inf), out)}).index == (at,)
    everywhere = rejected(expectation, {"c": np.full_like(out, np.nan)})
    assert everywhere.wrong == 499
    assert "NaN" in everywhere.explanation


def test_infinities_match_by_sign() -> None:
    inputs, expectation = setting("vector_add", {"a": "inf_one"}, N=500)
    out = inputs["a"] + inputs["b"]
    at = np.isinf(out)
    assert expectation.check({"c": out}) is None
    for other in (-np.inf, np.nan, 3e38):
        assert rejected(expectation, {"c": np.where(at, np.float32(other), out)}).wrong == 1


def test_beyond_the_end_of_the_range_infinity_is_right_and_nan_is_not() -> None:
    task = inline(reference="einsum: n,n->n", **{"in": {n: {"dtype": "f32", "shape": ["N"]} for n in "ab"}})
    inputs = {"a": np.full(40, 1e30, np.float32), "b": np.full(40, -1e20, np.float32)}
    expectation = expect(task, task.checked[0], inputs)
    assert expectation.check({"y": np.full(40, -np.inf, np.float32)}) is None
    for wrong in (np.inf, np.nan, -3.4e38, 0):
        assert expectation.check({"y": np.full(40, wrong, np.float32)}) is not None


def test_exact_tasks_compare_bits() -> None:
    inputs, expectation = setting("transpose", R=40, C=30)
    right = np.ascontiguousarray(inputs["x"].T)
    assert expectation.check({"y": right}) is None
    nudged = right.copy()
    nudged[3, 4] = np.nextafter(nudged[3, 4], np.float32(9))
    mismatch = rejected(expectation, {"y": nudged})
    assert (mismatch.index, mismatch.wrong, mismatch.error) == ((3, 4), 1, None)


def test_exact_tasks_keep_a_nan() -> None:
    inputs, expectation = setting("transpose", {"x": "nan_one"}, R=40, C=30)
    assert expectation.check({"y": np.ascontiguousarray(inputs["x"].T)}) is None
    assert expectation.check({"y": np.nan_to_num(inputs["x"]).T.copy()}) is not None


def test_integer_outputs_are_exact() -> None:
    inputs, expectation = setting("histogram", N=10_000, BINS=50)
    counts = np.bincount(inputs["x"], minlength=50).astype(np.int32)
    assert expectation.check({"h": counts}) is None
    counts[[3, 4]] += [1, -1]
    mismatch = rejected(expectation, {"h": counts})
    assert (mismatch.index, mismatch.wrong) == ((3,), 2)


def test_bf16_may_travel_as_bits() -> None:
    inputs, expectation = setting("gemm_bf16", M=20, N=24, K=33)
    out = (inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T).astype(ml_dtypes.bfloat16)
    assert expectation.check({"C": out}) is None
    assert expectation.check({"C": out.view(np.uint16)}) is None
    assert expectation.check({"C": out.view(np.uint16) ^ np.uint16(0x8000)}) is not None


def test_errors_spread_thin_are_caught_by_their_rms() -> None:
    inputs, expectation = setting("vector_add", N=100_000)
    (expected,) = expectation.tensors
    assert isinstance(expected, FloatExpectation)
    right = inputs["a"].astype(np.float64) + inputs["b"]
    scale = np.maximum(abs(right), np.sqrt(np.mean(right**2)))
    sign = np.where(np.arange(right.size) % 2 == 0, 1, -1)
    out = (right + sign * scale * 0.9 * min(expected.limits.tail, expected.limits.maximum)).astype(np.float32)
    mismatch = rejected(expectation, {"c": out})
    assert "rms" in mismatch.explanation


def test_many_middling_errors_are_caught_by_the_tail() -> None:
    inputs, expectation = setting("vector_add", N=100_000)
    (expected,) = expectation.tensors
    assert isinstance(expected, FloatExpectation)
    assert expected.limits.tail < expected.limits.maximum
    right = inputs["a"].astype(np.float64) + inputs["b"]
    scale = np.maximum(abs(right), np.sqrt(np.mean(right**2)))
    step = np.where(np.arange(right.size) % 100 == 0, (expected.limits.tail + expected.limits.maximum) / 2, 0)
    mismatch = rejected(expectation, {"c": (right + scale * step).astype(np.float32)})
    assert "0.1%" in mismatch.explanation


def test_the_error_of_a_row_is_measured_against_that_row() -> None:
    task = inline()
    case = Case(sizes={"N": 64})
    rows = task.model_copy(
        update={"tensors": tuple(t.model_copy(update={"shape": ("N", "N")}) for t in task.tensors)}
    ).model_copy(update={"reference": "einsum: rc->rc"})
    x = np.ones((64, 64), np.float32)
    x[0] = 1e-6
    expectation = expect(rows, case, {"x": x})
    out = x.copy()
    out[0, 5] = 2e-6
    assert rejected(expectation, {"y": out}).index == (0, 5)


def test_f64_kernels_may_not_compute_in_f32() -> None:
    task = inline(
        **{"in": {"x": {"dtype": "f64", "shape": ["N"]}, "w": {"dtype": "f64", "shape": ["N"]}}},
        out={"y": {"dtype": "f64", "shape": ["N"]}},
        reference="einsum: n,n->n",
    )
    assert task.precision is not None and task.precision.multiply == "f64"
    inputs = make_inputs(task, task.checked[0], seed=2)
    expectation = expect(task, task.checked[0], inputs)
    assert expectation.check({"y": inputs["x"] * inputs["w"]}) is None
    narrow = inputs["x"].astype(np.float32) * inputs["w"].astype(np.float32)
    assert expectation.check({"y": narrow.astype(np.float64)}) is not None


def test_inout_tensors_start_from_their_input() -> None:
    task = builtin_task("vector_add")
    accumulate = task.model_copy(
        update={
            "tensors": tuple(t.model_copy(update={"role": "inout"}) if t.name == "c" else t for t in task.tensors),
            "reference_source": (
                "def reference(xp, inputs, sizes):\n    return {'c': inputs['c'] + inputs['a'] * inputs['b']}\n"
            ),
        }
    )
    case = Case(sizes={"N": 300})
    inputs = make_inputs(accumulate, case, seed=4)
    expectation = expect(accumulate, case, inputs)
    assert expectation.check({"c": inputs["c"] + inputs["a"] * inputs["b"]}) is None
    assert expectation.check({"c": inputs["a"] * inputs["b"]}) is not None


def test_a_reference_of_another_shape_is_an_error_of_the_task() -> None:
    task = builtin_task("vector_add").model_copy(
        update={"reference_source": "def reference(xp, inputs, sizes):\n    return {'c': inputs['a'][:1]}\n"}
    )
    case = Case(sizes={"N": 9})
    with pytest.raises(InputError, match="another shape"):
        expect(task, case, make_inputs(task, case, seed=0))


HINTS = [
    ("softmax_rows", {"R": 20, "C": 30}, np.zeros_like, "Every element is zero"),
    ("softmax_rows", {"R": 20, "C": 30}, lambda y: np.full_like(y, 0.1), "Every element is the same"),
    ("softmax_rows", {"R": 20, "C": 30}, lambda y: y * np.float32(3), "3 times"),
    ("gemm_f32", {"M": 20, "N": 30, "K": 5}, lambda y: y.T.reshape(y.shape), "transposed"),
    ("stencil2d", {"H": 20, "W": 50}, lambda y: np.roll(y, 1, axis=1), "shifted by one along axis 1 (towards higher"),
    ("stencil2d", {"H": 50, "W": 20}, lambda y: np.roll(y, -1, axis=0), "shifted by one along axis 0 (towards lower"),
    ("vector_add", {"N": 1000}, lambda y: np.where(np.arange(1000) >= 992, y + 1, y), "the last 8 of 1000"),
    (
        "softmax_rows",
        {"R": 20, "C": 33},
        lambda y: np.where(np.arange(33) >= 32, y * 2, y),
        "index 32 and above of axis 1",
    ),
    (
        "gemm_f32",
        {"M": 33, "N": 40, "K": 5},
        lambda y: np.where(np.arange(33)[:, None] < 4, y + 1, y),
        "below index 4 of axis 0",
    ),
    ("vector_add", {"N": 1000}, lambda y: np.where(np.arange(1000) % 7 == 3, np.float32(np.nan), y), "are NaN"),
]


@pytest.mark.parametrize("name, sizes, spoil, text", HINTS, ids=[f"{hint[0]}-{hint[3]}" for hint in HINTS])
def test_recognisable_mistakes_are_named(name: str, sizes: dict[str, int], spoil: Any, text: str) -> None:
    _, expectation = setting(name, **sizes)
    (expected,) = expectation.tensors
    right = expected.golden.reshape(expected.shape).astype(np.float32)
    assert text in rejected(expectation, {expected.tensor.name: spoil(right)}).explanation


def test_unwritten_elements_are_named_as_such() -> None:
    inputs, expectation = setting("vector_add", N=1000)
    out = np.empty(1000, np.float32)
    fill_poison(out, "f32")
    out[:990] = (inputs["a"] + inputs["b"])[:990]
    mismatch = rejected(expectation, {"c": out})
    assert mismatch.wrong == 10
    assert "never written" in mismatch.explanation and "last 10 of 1000" in mismatch.explanation


def test_an_error_of_the_next_lower_precisions_size_is_named_so() -> None:
    inputs, expectation = setting("vector_add", N=5000)
    half = inputs["a"].astype(np.float16) + inputs["b"].astype(np.float16)
    assert "lower precision" in rejected(expectation, {"c": half.astype(np.float32)}).explanation


@pytest.mark.parametrize("name, sizes", [("transpose", {"R": 1, "C": 1}), ("transpose", {"R": 1, "C": 9})])
def test_what_is_wanted_does_not_change_with_the_inputs(name: str, sizes: dict[str, int]) -> None:
    inputs, expectation = setting(name, **sizes)
    right = np.ascontiguousarray(inputs["x"].T).copy()
    inputs["x"] += 1
    assert expectation.check({"y": right}) is None
