"""What a launch of a kernel header passes to a Python function, for tasks of tensors."""

from __future__ import annotations

from typing import Any

from ...store.models import Case, Kernel, Task
from ..header.expression import evaluate


def arguments_of_launch(kernel: Kernel, task: Task, case: Case) -> tuple[list[Any], list[int]]:
    """The tree of arguments over the task's tensors, and the numbers of the outputs among them.

    A function that is given no output returns them instead, in the task's order.
    """
    numbers = {tensor.name: number for number, tensor in enumerate(task.tensors)}
    values = {**case.sizes, **kernel.tunables}
    arguments: list[Any] = []
    for text in kernel.launches[0].args:
        name = text.strip()
        if name in numbers:
            arguments.append({"tensor": numbers[name]})
        else:
            arguments.append({"value": evaluate(name, values, what="an argument", minimum=None, case=case.name)})
    given = {argument["tensor"] for argument in arguments if "tensor" in argument}
    outputs = [numbers[tensor.name] for tensor in task.tensors if tensor.role != "in"]
    return arguments, [number for number in outputs if number in given]
