"""Whether a task's cases fit into this machine's memory: a machine that swaps takes everybody down with it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from ..store.errors import UnsupportedError
from ..store.models import Case, Task
from .tasks.shapes import bytes_of, input_tensors, output_tensors, shape_of

_WIDE_BYTES = 8
"""Of an element while a reference is computed: inputs as float64, and the golden. Exact tasks are not widened."""


def check_room(task: Task, *, together: Sequence[Case], alone: Sequence[Case], sets: int, sides: int) -> None:
    """Raises UnsupportedError where the cases need more memory than is free.

    together: cases whose `sets` contents are kept at once, for `sides` kernels (the timed ones); alone: cases that are
    worked on one after the other (the checked ones). The estimate is a lower one: what a reference itself allocates is
    not known.
    """
    free = available_bytes()
    held = sum(_inputs(task, case) * (sets + 1) + _outputs(task, case) * (1 + sides) for case in together)
    needs = [(held + _wide(task, case), case.name) for case in together]
    needs += [(2 * (_inputs(task, case) + _outputs(task, case)) + _wide(task, case), case.name) for case in alone]
    most, name = max(needs, default=(0, ""))
    if most > free:
        raise UnsupportedError(
            f"the task needs about {_text(most)} of memory, and {_text(free)} are free",
            value=f"{task.name}, {name}",
            next_step="Use smaller cases, or free some memory.",
        )


def available_bytes() -> int:
    """Memory that a new process may still take: the machine's, or what its control group has left."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    least = int(found[1]) << 10 if found else 1 << 62
    group = Path("/sys/fs/cgroup")
    if (group / "memory.max").is_file() and (limit := (group / "memory.max").read_text().strip()).isdecimal():
        least = min(least, max(0, int(limit) - int((group / "memory.current").read_text())))
    return least


def _inputs(task: Task, case: Case) -> int:
    return sum(bytes_of(tensor, case) for tensor in input_tensors(task))


def _outputs(task: Task, case: Case) -> int:
    return sum(bytes_of(tensor, case) for tensor in output_tensors(task))


def _wide(task: Task, case: Case) -> int:
    elements = sum(math.prod(shape_of(tensor, case)) for tensor in task.tensors)
    return 0 if task.precision is None else elements * _WIDE_BYTES


def _text(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
