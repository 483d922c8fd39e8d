"""Tasks for people and agents: the list, one in full, a shipped kernel to start from, a check of one's own."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, ConfigDict

from ..bench.room import check_room
from ..bench.tasks.builtin import (
    SUFFIX,
    ShippedLanguage,
    ShippedRole,
    builtin_kernel,
    builtin_names,
    builtin_task,
)
from ..bench.tasks.floor import compulsory_bytes, operations
from ..store.errors import InputError, UnsupportedError
from ..store.models import Case, Precision, Task, Tensor
from .kernels import task_named

LANGUAGES: tuple[ShippedLanguage, ...] = get_args(ShippedLanguage)
ROLES: tuple[ShippedRole, ...] = get_args(ShippedRole)


class TaskLine(BaseModel):
    """A task in short: what goes in and out, as `x[R,C] f32 -> y[R,C] f32`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    signature: str
    kernels: tuple[str, ...]


class ShippedKernel(BaseModel):
    """A kernel that comes with a task. `seed` is plain and right, `tuned` is fast, `library` calls one (torch: its own
    operation, for GPUs).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    language: ShippedLanguage
    role: ShippedRole
    path: str


class CaseLine(BaseModel):
    """One case: its compulsory traffic in bytes and its necessary operations (None: the task does not say)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    bytes: int
    operations: int | None


class TaskDetail(BaseModel):
    """A task in full."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    title: str
    signature: str
    tensors: tuple[Tensor, ...]
    sizes: tuple[str, ...]
    precision: Precision | None
    reference: str
    flops: str | None
    bytes: str | None
    data_dependent: bool
    checked: tuple[CaseLine, ...]
    timed: dict[str, tuple[CaseLine, ...]]
    kernels: tuple[ShippedKernel, ...]


def list_tasks() -> list[TaskLine]:
    """The built-in tasks by name."""
    return [_line(builtin_task(name)) for name in builtin_names()]


def show_task(name_or_path: str) -> TaskDetail:
    """One task: a built-in name, a `.toml` file, a folder with a `task.toml`, or a kernel file, whose header says its
    task. Raises InputError.
    """
    task = task_named(name_or_path)
    if task.problem is not None:
        raise UnsupportedError(
            "what another bench's problem computes stands in its own files",
            value=f"{task.name}: {', '.join(task.problem.files)}",
            next_step=f"Read them, or run: kforecast measure {name_or_path}",
        )
    return TaskDetail(
        id=task.id,
        name=task.name,
        title=task.title,
        signature=signature(task),
        tensors=task.tensors,
        sizes=task.size_names,
        precision=task.precision,
        reference=task.reference,
        flops=task.flops,
        bytes=task.bytes,
        data_dependent=task.data_dependent,
        checked=_cases(task, task.checked),
        timed={kind: _cases(task, cases) for kind, cases in task.timed.items()},
        kernels=_kernels(name_or_path),
    )


def copy_kernel(name: str, target: Path, *, language: ShippedLanguage = "c", role: ShippedRole = "seed") -> Path:
    """Copy a kernel that comes with a task into a folder, or to a file name, and return the new file.

    Raises InputError for a task or kernel there is not, and where a file of that name exists already: nothing is
    overwritten.
    """
    source = builtin_kernel(name, language, role)
    if source is None:
        there = ", ".join(f"{kernel.role} ({kernel.language})" for kernel in _kernels(name))
        step = f"It comes with: {there}." if there else "It comes with no kernels."
        raise InputError(f"the task {name} has no {role} kernel in {language}", value=role, next_step=step)
    if target.is_dir() or not target.suffix:
        target = target / f"{name}{SUFFIX[language]}"
    if target.suffix != SUFFIX[language]:
        step = f"Give a folder, or a name that ends with {SUFFIX[language]}."
        raise InputError(f"the file name does not say {language}", value=target, next_step=step)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8"):
            pass  # from here on it is ours, to be filled or to be taken away
    except FileExistsError:
        step = "Name another file; nothing is overwritten."
        raise InputError("the file exists already", value=target, next_step=step) from None
    except OSError as error:
        step = "Name a place you can write to."
        raise InputError(f"the file cannot be written ({error.strerror})", value=target, next_step=step) from error
    try:
        target.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        target.unlink(missing_ok=True)
        step = "Name a place you can write to."
        raise InputError(f"the file cannot be written ({error.strerror})", value=target, next_step=step) from error
    return target


class NullLine(BaseModel):
    """One null kernel: in how many of the checked cases the gate caught it. 0: it would pass as `ok`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    null: str
    caught: int
    cases: int


class TaskCheck(BaseModel):
    """Whether a task can tell right from wrong: every null kernel has to be caught in at least one checked case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    testable: bool
    nulls: tuple[NullLine, ...]


def check_task(name_or_path: str, *, on_progress: Callable[[str], None] = lambda text: None) -> TaskCheck:
    """Put the null kernels through every checked case of a task, on fresh inputs; a kernel file stands for its task.

    Raises InputError for no task.
    """
    from ..bench.correctness.nulls import null_outputs, passing_nulls

    task = task_named(name_or_path)
    if task.problem is not None:
        raise UnsupportedError(
            "problems of other benches are checked when they are measured",
            value=task.name,
            next_step=f"Run: kforecast measure {name_or_path}",
        )
    check_room(task, together=(), alone=task.checked, sets=1, sides=1)
    seed = secrets.randbits(31)
    caught: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    for number, case in enumerate(task.checked, 1):
        on_progress(f"case {number} of {len(task.checked)}: {case.name}")
        nulls = null_outputs(task, case, seed).keys()
        tried.update(nulls)
        caught.update(nulls - passing_nulls(task, case, seed))
    lines = tuple(NullLine(null=null, caught=caught[null], cases=cases) for null, cases in tried.items())
    return TaskCheck(name=task.name, testable=all(line.caught for line in lines), nulls=lines)


def signature(task: Task) -> str:
    """What goes in and what comes out: `x[R, C] f32 -> y[R, C] f32`; a tensor that is both stands on both sides."""
    inputs = ", ".join(_tensor(tensor) for tensor in task.tensors if tensor.role != "out")
    outputs = ", ".join(_tensor(tensor) for tensor in task.tensors if tensor.role != "in")
    return f"{inputs} -> {outputs}"


def _tensor(tensor: Tensor) -> str:
    return f"{tensor.name}[{', '.join(tensor.shape)}] {tensor.dtype}"


def _line(task: Task) -> TaskLine:
    shipped = tuple(f"{kernel.role}.{kernel.language}" for kernel in _kernels(task.name))
    return TaskLine(name=task.name, title=task.title, signature=signature(task), kernels=shipped)


def _cases(task: Task, cases: tuple[Case, ...]) -> tuple[CaseLine, ...]:
    return tuple(
        CaseLine(
            name=case.name,
            bytes=compulsory_bytes(task, case),
            operations=None if task.flops is None else operations(task, case),
        )
        for case in cases
    )


def _kernels(name: str) -> tuple[ShippedKernel, ...]:
    if name not in builtin_names():
        return ()
    found = ((language, role, builtin_kernel(name, language, role)) for language in LANGUAGES for role in ROLES)
    return tuple(
        ShippedKernel(language=language, role=role, path=str(path))
        for language, role, path in found
        if path is not None
    )
