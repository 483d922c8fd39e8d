"""A task's reference evaluated at three precisions: in float64, as declared, and one precision lower."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...store.errors import InputError
from ...store.models import Case, Task
from ..tasks.dtypes import Array, ArrayModule, is_float, round_significand, round_to, to_float
from ..tasks.reference import load_reference
from ..tasks.shapes import output_tensors, shape_of

LOWER_BITS = {"f64": 24, "f32": 11, "bf16": 4, "f16": 4}
"""Significand bits of the next lower precision's operands, by the declared one: f32, TF32, FP8 E4M3."""
Arrays = dict[str, Array]


def golden_outputs(task: Task, case: Case, inputs: Mapping[str, Array], xp: ArrayModule) -> Arrays:
    """The outputs in float64 on the exact inputs; for an exact task, computed on the inputs as they are.

    They share no memory with the inputs, which may be renewed.
    Raises InputError if the reference fails or gives an output another shape.
    """
    wide = dict(inputs) if task.precision is None else widened(task, inputs, xp, np.float64)
    result = _shaped(task, case, load_reference(task).compute(xp, wide, case.sizes))
    return {
        name: array.copy() if any(xp.may_share_memory(array, given) for given in inputs.values()) else array
        for name, array in result.items()
    }


def declared_outputs(task: Task, case: Case, inputs: Mapping[str, Array], xp: ArrayModule) -> Arrays:
    """The outputs at the declared precision: floats rounded into the tensor's dtype and widened to float64 again."""
    result = load_reference(task).compute(xp, widened(task, inputs, xp, _working(task)), case.sizes)
    return _rounded(task, _shaped(task, case, result), xp)


def lower_outputs(task: Task, case: Case, inputs: Mapping[str, Array], xp: ArrayModule) -> Arrays:
    """As `declared_outputs`, with the operands first rounded to the next lower precision."""
    assert task.precision is not None
    wide = widened(task, inputs, xp, _working(task), LOWER_BITS[task.precision.multiply])
    return _rounded(task, _shaped(task, case, load_reference(task).compute(xp, wide, case.sizes)), xp)


def golden_scales(task: Task, case: Case, inputs: Mapping[str, Array], xp: ArrayModule) -> Arrays:
    """The error scales the task's reference gives, by output; empty where it gives none."""
    reference = load_reference(task)
    return {} if reference.scale is None else reference.scales(xp, widened(task, inputs, xp, np.float64), case.sizes)


def widened(
    task: Task, inputs: Mapping[str, Array], xp: ArrayModule, wide: type[Any], bits: int | None = None
) -> Arrays:
    """The inputs with floats widened to `wide`, and rounded to `bits` significand bits where given."""
    floats = {tensor.name: tensor.dtype for tensor in task.tensors if is_float(tensor.dtype)}
    result: Arrays = {}
    for name, array in inputs.items():
        value = to_float(array, floats[name], xp, wide) if name in floats else array
        result[name] = round_significand(value, bits, xp) if bits is not None and name in floats else value
    return result


def _working(task: Task) -> type[Any]:
    return np.float64 if task.precision is not None and task.precision.accumulate == "f64" else np.float32


def _rounded(task: Task, result: Arrays, xp: ArrayModule) -> Arrays:
    for tensor in output_tensors(task):
        if is_float(tensor.dtype):
            result[tensor.name] = to_float(round_to(result[tensor.name], tensor.dtype, xp), tensor.dtype, xp)
    return result


def _shaped(task: Task, case: Case, result: Arrays) -> Arrays:
    for tensor in output_tensors(task):
        array, shape = result.get(tensor.name), shape_of(tensor, case)
        if array is None or tuple(array.shape) != shape:
            found = "nothing" if array is None else list(array.shape)
            raise InputError(
                f"the reference of task {task.name} gives {tensor.name} another shape in case {case.name}",
                value=f"{found}, declared {list(shape)}",
                next_step="Correct the reference or the tensor's shape.",
            )
    return result
