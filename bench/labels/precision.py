"""Element types that are less exact than a task allows."""

from __future__ import annotations

from ...store.models import Task
from .label import Label

_FRACTION_BITS = {
    "f64": 52,
    "f32": 23,
    "tf32": 10,
    "f16": 10,
    "bf16": 7,
    "e4m3": 3,
    "e5m2": 2,
    "e3m2": 2,
    "e2m3": 3,
    "e2m1": 1,
}
"""Stored bits of the fraction (IEEE 754; PTX ISA, "Alternate floating-point data formats")."""


def too_low(dtype: str, task: Task | None) -> bool:
    """Whether products of this type are less exact than the task's policy asks; False where it has none."""
    if task is None or task.precision is None:
        return False
    wanted = _FRACTION_BITS.get(task.precision.multiply)
    given = _FRACTION_BITS.get(dtype)
    return wanted is not None and given is not None and given < wanted


def low_precision(dtype: str, how: str, task: Task | None, line: int | None = None) -> list[Label]:
    """The label for products of a type, where it is below the task's policy. `how`: `matrix instructions take`."""
    if not too_low(dtype, task):
        return []
    assert task is not None and task.precision is not None
    return [Label("low-precision", f"{how} {dtype}; the task declares {task.precision.multiply}", line)]
