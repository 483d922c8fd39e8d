"""Reference results of a task: an einsum, or a function of the task's own Python text.

The text defines `reference(xp, inputs, sizes)` -> outputs by name, generic over numpy and cupy and over the float dtype
of the inputs: float64 arrays give the golden, float32 arrays the result at the declared precision. It may also define
`scale(xp, inputs, sizes)` -> by output name, what an element's error is measured against, and `terms(sizes)` -> how
many terms the longest sum behind one output element has.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...store.errors import InputError, KforecastError
from ...store.models import Sizes, Task
from .dtypes import Array, ArrayModule
from .shapes import input_tensors, output_tensors, shape_of

_EINSUM = re.compile(r"einsum: *([a-zA-Z]+(?:,[a-zA-Z]+)*)->([a-zA-Z]+)")
Arrays = dict[str, Array]
_Function = Callable[[ArrayModule, Arrays, Sizes], Arrays]


@dataclass(frozen=True)
class Reference:
    """A task's reference, ready to call; `scale` and `terms` are None where the task does not say."""

    task_name: str
    function: _Function
    scale: _Function | None = None
    terms: Callable[[Sizes], int] | None = None

    def compute(self, xp: ArrayModule, inputs: Mapping[str, Array], sizes: Sizes) -> Arrays:
        """The outputs by name. Raises InputError where the task's own text fails."""
        return self._call(self.function, xp, inputs, sizes)

    def scales(self, xp: ArrayModule, inputs: Mapping[str, Array], sizes: Sizes) -> Arrays:
        """Scales by output name, each of the output's shape; empty where the task gives none."""
        return {} if self.scale is None else self._call(self.scale, xp, inputs, sizes)

    def _call(self, function: _Function, xp: ArrayModule, inputs: Mapping[str, Array], sizes: Sizes) -> Arrays:
        import numpy as np

        try:
            with np.errstate(all="ignore"):
                result = function(xp, dict(inputs), dict(sizes))
        except (KforecastError, MemoryError):
            raise
        except Exception as error:
            raise InputError(
                f"the reference of task {self.task_name} failed",
                value=f"{type(error).__name__}: {error}",
                next_step="Correct reference(xp, inputs, sizes).",
            ) from error
        if not isinstance(result, dict):
            raise InputError(
                f"the reference of task {self.task_name} returned no dict",
                value=type(result).__name__,
                next_step="Return the outputs by name.",
            )
        return result


@lru_cache(maxsize=128)
def _from_source(source: str, function: str, task_name: str) -> Reference:
    namespace: dict[str, Any] = {"__name__": f"reference_of_{task_name}"}
    try:
        exec(compile(source, f"<reference of {task_name}>", "exec"), namespace)
    except Exception as error:
        raise InputError(
            f"the reference file of task {task_name} does not load",
            value=f"{type(error).__name__}: {error}",
            next_step="It must be plain Python with numpy at most.",
        ) from error
    found = namespace.get(function)
    if not callable(found) or len(inspect.signature(found).parameters) != 3:
        raise InputError(
            f"the reference file of task {task_name} has no such function of (xp, inputs, sizes)",
            value=function,
            next_step=f"Define def {function}(xp, inputs, sizes).",
        )
    return Reference(task_name, found, namespace.get("scale"), namespace.get("terms"))


def _einsum(task: Task) -> Reference:
    match = _EINSUM.fullmatch(task.reference.strip())
    operands, outputs = input_tensors(task), output_tensors(task)
    if match is None or len(outputs) != 1 or outputs[0].role != "out":
        raise InputError(
            f"the einsum of task {task.name} cannot be used",
            value=task.reference,
            next_step='Write "einsum: mk,kn->mn", with every index named, for one output.',
        )
    subscripts, result = match.group(1).split(","), match.group(2)
    declared = ", ".join(f"{tensor.name}[{','.join(tensor.shape)}]" for tensor in operands)
    ranks = [len(tensor.shape) for tensor in operands]
    if [len(subscript) for subscript in subscripts] != ranks or len(result) != len(outputs[0].shape):
        raise InputError(
            f"the einsum of task {task.name} does not fit its tensors",
            value=task.reference,
            next_step=f"Inputs in order: {declared}.",
        )
    if not set(result) <= set("".join(subscripts)) or len(set(result)) < len(result):
        raise InputError(
            f"the einsum of task {task.name} has an output index that no input has, or has it twice",
            value=task.reference,
            next_step="Every output index comes from an input.",
        )
    formula = f"{','.join(subscripts)}->{result}"
    names, output = [tensor.name for tensor in operands], outputs[0].name

    def product(xp: ArrayModule, inputs: Arrays, sizes: Sizes) -> Arrays:
        return {output: xp.einsum(formula, *(inputs[name] for name in names), optimize=len(names) > 1)}

    def scale(xp: ArrayModule, inputs: Arrays, sizes: Sizes) -> Arrays:
        squares = [xp.square(inputs[name]) for name in names]
        return {output: xp.sqrt(xp.einsum(formula, *squares, optimize=len(names) > 1))}

    def terms(sizes: Sizes) -> int:
        case = task.checked[0].model_copy(update={"sizes": sizes})
        extents = {
            index: extent
            for subscript, tensor in zip(subscripts, operands, strict=True)
            for index, extent in zip(subscript, shape_of(tensor, case), strict=True)
        }
        return math.prod(extent for index, extent in extents.items() if index not in result)

    return Reference(task.name, product, scale, terms)


def load_reference(task: Task) -> Reference:
    """The task's reference. Raises InputError where its text does not load or its einsum does not fit the tensors."""
    if task.reference.startswith("einsum:"):
        return _einsum(task)
    return _from_source(task.reference_source, task.reference, task.name)


def check_reference(task: Task, where: str) -> None:
    """Raises InputError, starting with `where`, if the task's reference cannot be used."""
    try:
        load_reference(task)
    except InputError as error:
        raise InputError(f"{where}: {error.what}", value=error.value, next_step=error.next_step) from error
