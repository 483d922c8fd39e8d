"""Where a case's tensors lie in the slab: an input area and an output area, each tensor 256-byte aligned, red zones
between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ....store.models import Case, Kernel, Task
from ...header.expression import evaluate
from ...header.plan import plan_launches
from ...lane import Program
from ...tasks.dtypes import item_bytes
from ...tasks.shapes import bytes_of

_ALIGN = 256


def _up(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


@dataclass
class Layout:
    """Offsets in bytes from the start of the input area and of the output area; `as_message` is what the oracle gets.

    scratch: by side, as two kernels may name theirs alike. input_bytes, output_bytes: sizes of the two areas.
    """

    inputs: dict[str, tuple[int, int]] = field(default_factory=dict)
    outputs: dict[str, tuple[int, int]] = field(default_factory=dict)
    scratch: dict[tuple[str, str], tuple[int, int, str]] = field(default_factory=dict)
    red: list[tuple[int, int]] = field(default_factory=list)
    zero: list[str] = field(default_factory=list)
    input_bytes: int = 0
    output_bytes: int = 0

    def as_message(self) -> dict[str, Any]:
        return {
            "inputs": self.inputs,
            "outputs": self.outputs,
            "scratch": list(self.scratch.values()),
            "red": self.red,
        }

    def _output(self, size: int) -> int:
        """Place `size` bytes in the output area, with a red zone of at least 256 bytes behind them."""
        offset = self.output_bytes
        end = _up(offset + size) + _ALIGN
        self.red.append((offset + size, end - offset - size))
        self.output_bytes = end
        return offset


def lay_out(
    task: Task,
    case: Case,
    kernels: Mapping[str, Kernel],
    constants: Mapping[str, int],
    more: Mapping[str, Mapping[str, int]] | None = None,
) -> Layout:
    """The layout of one case for the kernels by side. more: by side, what their compilers want of their own, in bytes.
    Raises InputError for a shape that has no value.
    """
    layout = Layout()
    layout.red.append((0, _ALIGN))
    layout.output_bytes = _ALIGN
    for tensor in task.tensors:
        size = bytes_of(tensor, case)
        if tensor.role == "in":
            layout.inputs[tensor.name] = (layout.input_bytes, size)
            layout.input_bytes += _up(size) + _ALIGN
        else:
            layout.outputs[tensor.name] = (layout._output(size), size)
            if tensor.zero:
                layout.zero.append(tensor.name)
    for side, kernel in kernels.items():
        values = {**constants, **case.sizes, **kernel.tunables}
        for entry in kernel.scratch:
            size = item_bytes(entry.dtype)
            for text in entry.shape:
                size *= evaluate(text, values, what=f"shape of scratch {entry.name}", minimum=1, case=case.name)
            layout.scratch[side, entry.name] = (layout._output(size), size, entry.dtype)
        for name, size in (more or {}).get(side, {}).items():
            layout.scratch[side, name] = (layout._output(size), size, "u8")
    return layout


def scratch_of(program: Program, task: Task, case: Case, constants: Mapping[str, int]) -> dict[str, int]:
    """What the compiler of a kernel wants of its own for one case, in bytes by name. Raises as `plan_launches` does."""
    if not any(form.scratch for form in program.build.forms):
        return {}
    return program.build.scratch(plan_launches(program.kernel, task, case, program.signatures, constants))


class Slab:
    """Hands out slots one after the other; `end` is how much memory they take together."""

    def __init__(self) -> None:
        self.end = 0

    def take(self, size: int) -> int:
        offset = self.end
        self.end += _up(max(size, 1))
        return offset
