"""The gate: is every element of a kernel's outputs right?

Golden values come from the reference in float64 on the exact inputs. Errors are scaled (`norms.Scale`) and held
against limits between the reference's own error at the declared precision and its error one precision lower: f64 to
f32, f32 to TF32 operands, bf16 and f16 to FP8 E4M3 operands. NaNs and infinities must be exactly where the reference
has them. Outputs of exact tasks, and integer outputs of any task, are compared bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...store.models import Case, Mismatch, Task, Tensor
from ..tasks.dtypes import Array, ArrayModule, carrier_dtype, is_float, unit_roundoff
from ..tasks.floor import operations
from ..tasks.reference import load_reference
from ..tasks.shapes import output_tensors, shape_of
from .compare import ExactExpectation, FloatExpectation
from .goldens import LOWER_BITS, declared_outputs, golden_outputs, golden_scales, lower_outputs
from .norms import Scale, limits, measure_norms

__all__ = ["ExactExpectation", "Expectation", "FloatExpectation", "expect"]


@dataclass(frozen=True)
class Expectation:
    """What one case's outputs must be. Make it with `expect`, after the candidate's outputs were taken."""

    case: Case
    tensors: tuple[FloatExpectation | ExactExpectation, ...]
    xp: ArrayModule

    def check(self, outputs: Mapping[str, Array]) -> Mismatch | None:
        """The first wrong element of the first wrong output, or None if every element of every output is right.

        outputs: the arrays by name, numpy or cupy as the expectation was made with.
        """
        for expected in self.tensors:
            mismatch = expected.check(outputs.get(expected.tensor.name), self.xp)
            if mismatch is not None:
                return mismatch
        return None


def expect(task: Task, case: Case, inputs: Mapping[str, Array], xp: ArrayModule = np) -> Expectation:
    """What the outputs must be for these inputs, arrays as `make_inputs` gives them, before any kernel touched them.

    Raises InputError if the task's reference fails or gives an output another shape.
    """
    outputs = output_tensors(task)
    golden = golden_outputs(task, case, inputs, xp)
    if task.precision is None:
        return Expectation(case, tuple(_exact(tensor, case, golden, xp) for tensor in outputs), xp)
    scales = golden_scales(task, case, inputs, xp)
    declared = declared_outputs(task, case, inputs, xp)
    lower = lower_outputs(task, case, inputs, xp)
    accumulation = unit_roundoff(task.precision.accumulate) * math.sqrt(_terms(task, case))
    found: list[FloatExpectation | ExactExpectation] = []
    for tensor in outputs:
        if not is_float(tensor.dtype):
            found.append(_exact(tensor, case, golden, xp))
            continue
        name = tensor.name
        values = xp.ascontiguousarray(golden.pop(name).astype(np.float64, copy=False))
        scale = Scale.of(values, scales.pop(name, None), xp)
        flat = values.reshape(-1)
        norms = [measure_norms(scale, result.pop(name).reshape(-1), xp) for result in (declared, lower)]
        limit = limits(
            norms[0],
            norms[1],
            rounding=unit_roundoff(tensor.dtype) + accumulation,
            lower_rounding=2.0 ** -LOWER_BITS[task.precision.multiply],
            elements=flat.size,
        )
        found.append(FloatExpectation(case.name, tensor, tuple(values.shape), flat, scale, norms[0], norms[1], limit))
    return Expectation(case, tuple(found), xp)


def _exact(tensor: Tensor, case: Case, golden: Mapping[str, Array], xp: ArrayModule) -> ExactExpectation:
    array = golden[tensor.name]
    if not (tensor.dtype == "bf16" and array.dtype == np.uint16):
        array = array.astype(carrier_dtype(tensor.dtype, xp), copy=False)
    return ExactExpectation(case.name, tensor, xp.ascontiguousarray(array))


def _terms(task: Task, case: Case) -> int:
    """Terms of the longest sum behind one output element; where the reference does not say: half its operations."""
    reference = load_reference(task)
    if reference.terms is not None:
        return max(1, int(reference.terms(dict(case.sizes))))
    elements = sum(math.prod(shape_of(tensor, case)) for tensor in output_tensors(task))
    return max(1, operations(task, case) // (2 * elements))
