"""What the compiled code says, out of a kernel's facts."""

from __future__ import annotations

from ...store.models import Facts, Task
from .label import Label
from .precision import low_precision


def of_facts(facts: Facts, task: Task | None) -> list[Label]:
    """Operand types of matrix instructions, and device variables.

    Approximate instructions say nothing: `tanhf` and `rsqrtf` at their full precision are made of them too.
    """
    found: list[Label] = []
    for label in facts.labels:
        kind, _, operand = label.partition("-")
        if kind == "mma":
            found += low_precision(operand, "matrix instructions take", task)
        elif label == "stateful":
            found.append(Label("stateful", "device variables that outlive a launch are written"))
    return found
