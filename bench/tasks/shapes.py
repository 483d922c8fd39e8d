"""Extents of a task's tensors in a case."""

from __future__ import annotations

import math

from ...store.models import Case, Task, Tensor
from ..header.expression import evaluate
from .dtypes import item_bytes


def shape_of(tensor: Tensor, case: Case) -> tuple[int, ...]:
    """The tensor's extents in this case, each at least 1. Raises InputError naming tensor, case and values."""
    what = f"a shape of {tensor.name}"
    return tuple(evaluate(text, case.sizes, what=what, minimum=1, case=case.name) for text in tensor.shape)


def bytes_of(tensor: Tensor, case: Case) -> int:
    """Bytes the tensor takes in this case."""
    return math.prod(shape_of(tensor, case)) * item_bytes(tensor.dtype)


def output_tensors(task: Task) -> tuple[Tensor, ...]:
    """The tensors a kernel writes: `out` and `inout`."""
    return tuple(tensor for tensor in task.tensors if tensor.role != "in")


def input_tensors(task: Task) -> tuple[Tensor, ...]:
    """The tensors a kernel finds filled: `in` and `inout`."""
    return tuple(tensor for tensor in task.tensors if tensor.role != "out")
