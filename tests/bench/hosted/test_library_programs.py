"""The library programs that come with tasks: each is right, changes no input, and is a library call and no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kforecast.bench.correctness.gate import expect
from kforecast.bench.hosted.arguments import arguments_of_launch
from kforecast.bench.hosted.problems import TensorDefinition, array_of
from kforecast.bench.labels import kernel_labels
from kforecast.bench.tasks.builtin import builtin_kernel, builtin_names, builtin_task
from kforecast.tools.kernels import Asked, load_file

NO_LIBRARY = {"stencil2d"}  # PyTorch has no operation that leaves the border as it is


def test_every_task_that_pytorch_has_an_operation_for_has_its_program() -> None:
    assert {name for name in builtin_names() if builtin_kernel(name, "torch", "library") is None} == NO_LIBRARY


@pytest.mark.parametrize("name", sorted(set(builtin_names()) - NO_LIBRARY))
def test_a_library_program_is_right_on_every_checked_case(name: str) -> None:
    pytest.importorskip("torch")
    path = builtin_kernel(name, "torch", "library")
    assert path is not None
    named = load_file(path, Asked())
    task = builtin_task(name)
    assert (named.kernel.language, named.task.id, named.warnings) == ("torch", task.id, ())
    assert not {label.name for label in kernel_labels(named.kernel)} - {"library"}
    space: dict[str, Any] = {}
    exec(compile(named.kernel.source, str(path), "exec"), space)
    definition = TensorDefinition(task, "cpu")
    for number, case in enumerate(task.checked):
        tensors = definition.inputs(case, 1234 + number)
        arguments, destinations = arguments_of_launch(named.kernel, task, case)
        assert destinations == []
        given = [tensors[one["tensor"]] if "tensor" in one else one["value"] for one in arguments]
        (output,) = (tensor for tensor in task.tensors if tensor.role != "in")
        before = {t.name: array_of(value).copy() for t, value in zip(task.tensors, tensors, strict=True)}
        returned = space[named.kernel.launches[0].entry](*given)
        after = {t.name: array_of(value) for t, value in zip(task.tensors, tensors, strict=True)}
        assert all(np.array_equal(before[one], after[one], equal_nan=True) for one in before)
        arrays = {tensor.name: before[tensor.name] for tensor in task.tensors if tensor.role == "in"}
        wrong = expect(task, case, arrays).check({output.name: array_of(returned)})
        assert wrong is None, (case.name, wrong)
