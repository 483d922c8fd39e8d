"""Inputs, references and the gate with cupy in numpy's place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kforecast.bench.correctness.gate import expect
from kforecast.bench.correctness.goldens import declared_outputs, golden_outputs
from kforecast.bench.correctness.nulls import assert_testable
from kforecast.bench.correctness.poison import fill_poison
from kforecast.bench.tasks.builtin import builtin_names, builtin_task
from kforecast.bench.tasks.dtypes import carrier_dtype, raw_bits, round_to
from kforecast.bench.tasks.inputs import make_inputs
from kforecast.bench.tasks.shapes import input_tensors, output_tensors, shape_of
from kforecast.store.models import Case, Task

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def cp() -> Any:
    return pytest.importorskip("cupy")


def right_outputs(task: Task, case: Case, inputs: dict[str, Any], xp: Any) -> dict[str, Any]:
    if task.precision is None:
        return golden_outputs(task, case, inputs, xp)
    outputs = declared_outputs(task, case, inputs, xp)
    return {tensor.name: round_to(outputs[tensor.name], tensor.dtype, xp) for tensor in output_tensors(task)}


@pytest.mark.parametrize("name", builtin_names())
def test_every_checked_case_accepts_the_reference_and_refuses_poison(cp: Any, name: str) -> None:
    task = builtin_task(name)
    for case in task.checked:
        inputs, again = make_inputs(task, case, 31, cp), make_inputs(task, case, 31, cp)
        for tensor in input_tensors(task):
            assert inputs[tensor.name].dtype == carrier_dtype(tensor.dtype, cp)
            assert inputs[tensor.name].shape == shape_of(tensor, case)
            assert bool((raw_bits(inputs[tensor.name]) == raw_bits(again[tensor.name])).all())
        expectation = expect(task, case, inputs, cp)
        outputs = right_outputs(task, case, inputs, cp)
        assert expectation.check(outputs) is None, case.name
        for tensor in output_tensors(task):
            fill_poison(outputs[tensor.name].reshape(-1)[-1:], tensor.dtype)
        if "nan_one" in case.fill.values():
            continue  # the last element may be a NaN by right
        mismatch = expectation.check(outputs)
        assert mismatch is not None and mismatch.wrong == 1, case.name
        assert "never written" in mismatch.explanation


@pytest.mark.parametrize("name", builtin_names())
def test_nulls_are_rejected(cp: Any, name: str) -> None:
    assert_testable(builtin_task(name), seed=32, xp=cp)


@pytest.mark.parametrize("name", ["softmax_rows", "gemm_bf16", "scan", "layernorm"])
def test_both_modules_judge_alike(cp: Any, name: str) -> None:
    task, case = builtin_task(name), builtin_task(name).checked[1]
    inputs = make_inputs(task, case, 33)
    moved = {n: cp.asarray(a.view(np.uint16) if a.dtype == carrier_dtype("bf16", np) else a) for n, a in inputs.items()}
    (here,), (there,) = expect(task, case, inputs).tensors, expect(task, case, moved, cp).tensors
    np.testing.assert_allclose(cp.asnumpy(there.golden), here.golden.reshape(-1), rtol=1e-9, atol=1e-12)
    for a, b in zip(there.limits, here.limits, strict=True):  # type: ignore[union-attr]
        assert a == pytest.approx(b, rel=0.5)
