"""The floor: a time no correct kernel of a task can beat on a device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...store.models import Case, Task
from ..header.expression import evaluate
from .shapes import bytes_of, input_tensors, output_tensors

_PRODUCTS_FOR_F32 = 3
"""A kernel may split each f32 operand into narrow ones and sum three or more products on a tensor core: the gate lets
it pass. So a third of a narrower unit's rate may be the fastest an f32 task can use."""

_UNITS: dict[str, tuple[tuple[str, int], ...]] = {
    "f64": (("f64", 1),),
    "f32": (("f32", 1), ("tf32", _PRODUCTS_FOR_F32), ("bf16", _PRODUCTS_FOR_F32), ("f16", _PRODUCTS_FOR_F32)),
    "bf16": (("bf16", 1), ("f16", 1), ("tf32", 1), ("f32", 1)),
    "f16": (("f16", 1), ("bf16", _PRODUCTS_FOR_F32), ("tf32", 1), ("f32", 1)),
}


@dataclass(frozen=True)
class DeviceRates:
    """What a device can do at best: memory bandwidth in bytes a second, and operations a second at boost by unit.

    Units: `f64`, `f32`, `tf32`, `bf16`, `f16`; the tensor core's dense rate where it has the type.
    """

    bandwidth: float
    operations: Mapping[str, float] = field(default_factory=dict)


def compulsory_bytes(task: Task, case: Case) -> int:
    """Bytes any kernel must move: every input once and every output once, or what the task says (`bytes`)."""
    if task.bytes is not None:
        return evaluate(task.bytes, case.sizes, what="bytes", minimum=0, case=case.name)
    return sum(bytes_of(tensor, case) for tensor in (*input_tensors(task), *output_tensors(task)))


def operations(task: Task, case: Case) -> int:
    """Operations any kernel must do (`flops`); 0 where the task does not say."""
    if task.flops is None:
        return 0
    return evaluate(task.flops, case.sizes, what="flops", minimum=0, case=case.name)


def floor_us(
    task: Task, case: Case, rates: DeviceRates, l2_bytes: int, *, cold: bool = True, launch_us: float = 0.0
) -> float | None:
    """The floor in microseconds, the largest of three; None for data-dependent tasks, which have none.

    Memory: the compulsory bytes beyond what may stay in the last-level cache (`l2_bytes`: inputs a flush left there, or
    outputs not written back when the kernel ends) over the bandwidth; nothing for warm caches.
    Operations: over the fastest unit that the precision policy allows.
    Launch: the empty kernel in the same launch mode, `launch_us`.
    """
    if task.data_dependent:
        return None
    memory = max(0, compulsory_bytes(task, case) - l2_bytes) / rates.bandwidth if cold else 0.0
    return max(memory * 1e6, operations(task, case) / _fastest(task, rates) * 1e6, launch_us)


def _fastest(task: Task, rates: DeviceRates) -> float:
    if task.precision is None:
        return math.inf
    possible = [
        rates.operations[unit] / products
        for unit, products in _UNITS[task.precision.multiply]
        if unit in rates.operations
    ]
    return max(possible, default=math.inf)
