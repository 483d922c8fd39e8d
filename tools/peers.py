"""Kernels from the files of other benches: a KernelBench problem, a GPU MODE folder, a submission to either."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ..bench.header.block import find_header
from ..bench.header.files import check_source, language_of_file, read_source
from ..bench.languages.torch import peer_kernel, reference_kernel
from ..bench.tasks.gpumode import TASK_FILE
from ..bench.tasks.peers import peer_task, task_of_source
from ..store.models import Kernel, Task


def load_peer(
    named: str | Path, task: Task | None, admit: Callable[[Path], None] | None
) -> tuple[Kernel, Task, str] | None:
    """The kernel, task and name of a path or source text that is another bench's; None for every other.

    task: the one that was asked for; a problem itself is also its own candidate. Raises InputError for a submission
    that lacks its entry, and for problems that cannot be measured.
    """
    if task is not None and task.problem is None:
        return None
    is_path = isinstance(named, Path) or "\n" not in named
    path = Path(os.path.expanduser(named)) if is_path else None  # noqa: PTH111 -- Path raises for users not there
    if path is not None and os.path.isdir(path) and os.path.exists(path / TASK_FILE):  # noqa: PTH112, PTH110
        found = peer_task(path, admit)
        assert found is not None, "it has a task.yml"
        return reference_kernel(found), found, str(named)
    if path is None:
        source, name = check_source(str(named).encode("utf-8", "surrogatepass"), "source text", "the text given"), ""
    elif path.suffix.lower() == ".py" or task is not None:
        language_of_file(path)
        source, name = read_source(path), path.name
    else:
        return None
    if task is None:
        if find_header(source, "torch") is not None:
            return None
        task = task_of_source(source, path, admit)
        if task is None:
            return None
    kernel = peer_kernel(source, name or "source text", task)
    return kernel, task, str(named) if path is not None else kernel.launches[0].entry


def reference_of(task: Task) -> Kernel | None:
    """The problem's own reference as a kernel; None for tasks that are no problems of another bench."""
    return None if task.problem is None else reference_kernel(task)
