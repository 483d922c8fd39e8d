"""Problems of other benches by their paths: KernelBench files and GPU MODE folders."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ...store.models import Task
from ..header.files import read_source
from .gpumode import CANDIDATE_ENTRY, TASK_FILE, gpumode_task
from .kernelbench import is_kernelbench, kernelbench_task, top_level_names

Admit = Callable[[Path], None]
"""Asked before a file is read; raises InputError to refuse it."""


def peer_task(spec: str | Path, admit: Admit | None = None) -> Task | None:
    """The task of a KernelBench file, or of a GPU MODE folder or its `task.yml`; None for every other path.

    Raises InputError for a Python file that is no problem, and for a folder whose problem cannot be measured.
    """
    path = Path(os.path.expanduser(spec))  # noqa: PTH111 -- Path raises for users that are not there
    if path.name == TASK_FILE and os.path.isfile(path):  # noqa: PTH113 -- no error for any text
        path = path.parent
    if os.path.isfile(path / TASK_FILE):  # noqa: PTH113
        return gpumode_task(path, admit)
    if path.suffix == ".py":
        if admit is not None:
            admit(path)
        return kernelbench_task(read_source(path, "problem file"), path.stem)
    return None


def task_of_source(source: str, path: Path | None, admit: Admit | None = None) -> Task | None:
    """The task that a Python file without a header is about: its own, if it is a KernelBench problem; or that of the
    GPU MODE folder it lies in. path: None for source text.
    """
    if is_kernelbench(source):
        return kernelbench_task(source, "problem" if path is None else path.stem)
    beside = path is not None and (path.parent / TASK_FILE).is_file() and CANDIDATE_ENTRY in top_level_names(source)
    return gpumode_task(path.parent, admit) if path is not None and beside else None
