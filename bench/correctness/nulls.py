"""Null kernels: outputs that cost nothing and must fail. A task that lets one pass cannot tell right from wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ...store.errors import InputError
from ...store.models import Case, Task, Tensor
from ..tasks.dtypes import (
    Array,
    ArrayModule,
    carrier_dtype,
    is_float,
    numpy_dtype,
    round_significand,
    round_to,
    to_float,
)
from ..tasks.inputs import make_inputs
from ..tasks.shapes import input_tensors, output_tensors
from .gate import expect
from .goldens import golden_outputs, lower_outputs

_TILE = 256
_COARSE_BITS = 8
"""What a narrower copy of an exact task's floats would keep: bf16's significand."""
Outputs = dict[str, Array]

NULL_NAMES: tuple[str, ...] = (
    "zeros",
    "ones",
    "input copy",
    "constant mean",
    "previous output",
    "last tile missing",
    "last terms missing",
    "lower precision",
)


def null_outputs(task: Task, case: Case, seed: int, xp: ArrayModule = np) -> dict[str, Outputs]:
    """The null kernels' outputs by null, for the inputs of `seed`; a null without meaning for the task is left out.

    `previous output` is right for another seed, `constant mean` is its mean, `last tile missing` keeps the last tile of
    it; `last terms missing` is right for inputs whose rows end in zeros, `lower precision` has its operands rounded to
    the next lower precision.
    """
    inputs = make_inputs(task, case, seed, xp)
    other = make_inputs(task, case, seed + 1, xp)
    right, previous = _right(task, case, inputs, xp), _right(task, case, other, xp)
    nulls: dict[str, Outputs] = {name: {} for name in NULL_NAMES}
    for tensor in output_tensors(task):
        name, golden = tensor.name, right[tensor.name]
        nulls["zeros"][name] = xp.zeros_like(golden)
        nulls["ones"][name] = _carried(xp.ones(golden.shape, np.float64), tensor, xp)
        nulls["input copy"][name] = _input_copy(task, tensor, golden, inputs, xp)
        nulls["constant mean"][name] = _mean(previous[name], tensor, xp)
        nulls["previous output"][name] = previous[name]
        nulls["last tile missing"][name] = _last_tile(golden, previous[name], tensor, xp)
    nulls["last terms missing"] = _right(task, case, _without_last_terms(task, inputs), xp)
    lower = _lower(task, case, inputs, xp)
    if lower is None:
        del nulls["lower precision"]
    else:
        nulls["lower precision"] = lower
    return nulls


def passing_nulls(task: Task, case: Case, seed: int, xp: ArrayModule = np) -> frozenset[str]:
    """The null kernels that the gate lets pass in this one case."""
    expectation = expect(task, case, make_inputs(task, case, seed, xp), xp)
    nulls = null_outputs(task, case, seed, xp)
    return frozenset(name for name, outputs in nulls.items() if expectation.check(outputs) is None)


def assert_testable(task: Task, cases: Iterable[Case] | None = None, seed: int = 0, xp: ArrayModule = np) -> None:
    """Raises InputError, naming the null kernel, if one passes every one of the cases (the task's checked ones).

    A verdict `ok` needs every case to be right, so one case that a null fails is enough.
    """
    survivors: frozenset[str] | None = None
    for case in task.checked if cases is None else cases:
        passing = passing_nulls(task, case, seed, xp)
        survivors = passing if survivors is None else survivors & passing
        if not survivors:
            return
    if survivors:
        raise InputError(
            f"the task {task.name} cannot tell right from wrong: a null kernel passes every case",
            value=", ".join(sorted(survivors)),
            next_step="Add checked cases, or fills, for which its output is wrong.",
        )


def _right(task: Task, case: Case, inputs: Mapping[str, Array], xp: ArrayModule) -> Outputs:
    """The golden outputs, as a perfect kernel would leave them."""
    golden = golden_outputs(task, case, inputs, xp)
    return {tensor.name: _carried(golden[tensor.name], tensor, xp) for tensor in output_tensors(task)}


def _carried(values: Array, tensor: Tensor, xp: ArrayModule) -> Array:
    if not is_float(tensor.dtype):
        return values.astype(numpy_dtype(tensor.dtype), copy=False)
    if values.dtype == carrier_dtype(tensor.dtype, xp):
        return values
    return round_to(values.astype(np.float64, copy=False), tensor.dtype, xp)


def _input_copy(task: Task, tensor: Tensor, golden: Array, inputs: Mapping[str, Array], xp: ArrayModule) -> Array:
    """The output itself where it is `inout`, else the first input of its dtype (or the first), repeated to its size."""
    candidates = sorted(input_tensors(task), key=lambda entry: (entry.name != tensor.name, entry.dtype != tensor.dtype))
    source = candidates[0]
    flat = to_float(inputs[source.name], source.dtype, xp).reshape(-1)
    repeated = xp.resize(flat, golden.shape) if flat.size else flat
    with np.errstate(all="ignore"):
        finite = xp.where(xp.isfinite(repeated), repeated, 0.0)
    return inputs[source.name].copy() if source.name == tensor.name else _carried(finite, tensor, xp)


def _mean(golden: Array, tensor: Tensor, xp: ArrayModule) -> Array:
    values = to_float(golden, tensor.dtype, xp)
    values = xp.where(xp.isfinite(values), values, 0.0)
    return _carried(xp.full(golden.shape, float(values.mean())), tensor, xp)


def _last_tile(golden: Array, previous: Array, tensor: Tensor, xp: ArrayModule) -> Array:
    result = golden.copy()
    flat = result.reshape(-1)
    tile = min(_TILE, -(-flat.size // 8))
    flat[-tile:] = 0 if tensor.zero else previous.reshape(-1)[-tile:]
    return result


def _without_last_terms(task: Task, inputs: Mapping[str, Array]) -> Outputs:
    result = {name: array.copy() for name, array in inputs.items()}
    for tensor in input_tensors(task):
        array = result[tensor.name]
        array[..., -min(_TILE, -(-array.shape[-1] // 8)) :] = 0
    return result


def _lower(task: Task, case: Case, inputs: Mapping[str, Array], xp: ArrayModule) -> Outputs | None:
    outputs = output_tensors(task)
    if task.precision is not None:
        result = lower_outputs(task, case, inputs, xp)
        return {tensor.name: _carried(result[tensor.name], tensor, xp) for tensor in outputs}
    rounded = {
        tensor.name: round_significand(inputs[tensor.name], _COARSE_BITS, xp)
        for tensor in input_tensors(task)
        if tensor.dtype in ("f32", "f64")
    }
    return _right(task, case, {**inputs, **rounded}, xp) if rounded else None
