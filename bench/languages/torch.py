"""The torch language: Python programs that call PyTorch, from the files of other benches or with a kernel header."""

from __future__ import annotations

import ast
import platform
import sys
import time
from functools import cache

from ...store.errors import InputError
from ...store.models import EntryFacts, Facts, Kernel, Launch, Problem, Task
from ..tasks import gpumode, kernelbench
from .build import Build
from .located import syntax_error


@cache
def torch_version() -> str:
    """The installed version of PyTorch, without importing it; empty where there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def toolchain() -> str:
    """The toolchain string that enters a kernel's id, e.g. `torch 2.13.0, python 3.12`."""
    number = torch_version() or "none"
    return f"torch {number}, python {sys.version_info.major}.{sys.version_info.minor}"


def peer_kernel(source: str, name: str, task: Task) -> Kernel:
    """The kernel of a submission to another bench's problem. Raises InputError where it has not the right entry."""
    assert task.problem is not None
    defined = kernelbench.top_level_names(source)
    if task.problem.format == "kernelbench":
        wanted = kernelbench.CANDIDATE_ENTRY
        if wanted not in defined and source == task.problem.files[kernelbench.PROBLEM_FILE]:
            return reference_kernel(task, name)
    else:
        wanted = gpumode.CANDIDATE_ENTRY
    if wanted not in defined and defined:
        raise InputError(
            f"a submission to a {_BENCHES[task.problem.format]} problem defines {wanted}",
            value=f"{name} defines {', '.join(sorted(defined)[:8])}",
            next_step=f"Name the class or function {wanted}.",
        )
    return _kernel(task, source, name, wanted)


def reference_kernel(task: Task, name: str | None = None) -> Kernel:
    """The problem's own reference as a kernel: what submissions are compared with."""
    problem = task.problem
    assert problem is not None
    if problem.format == "kernelbench":
        source = problem.files[kernelbench.PROBLEM_FILE]
        return _kernel(task, source, name or f"{task.name}.py", kernelbench.REFERENCE_ENTRY)
    source = problem.files[gpumode.REFERENCE_FILE]
    return _kernel(task, source, name or gpumode.REFERENCE_FILE, gpumode.REFERENCE_ENTRY)


_BENCHES = {"kernelbench": "KernelBench", "gpumode": "GPU MODE"}


def _kernel(task: Task, source: str, name: str, entry: str) -> Kernel:
    return Kernel.make(
        language="torch",
        name=name,
        source=source,
        launches=(Launch(entry=entry, args=()),),
        task_id=task.id,
        includes=_beside(task.problem),
        toolchain=toolchain(),
    )


def _beside(problem: Problem | None) -> dict[str, str]:
    """The problem's files that lie beside a submission when it runs."""
    return dict(problem.files) if problem is not None and problem.format == "gpumode" else {}


def compile_torch(kernel: Kernel) -> Build:
    """Check the program's syntax. What it builds itself, it builds when it is loaded."""
    started = time.monotonic()
    try:
        tree = ast.parse(kernel.source, filename=kernel.name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, SyntaxError):
            text = syntax_error({kernel.name: kernel.source}, kernel.name, error)
        else:
            text = f"{kernel.name}: error: {type(error).__name__}: {error}"
        return Build(None, Facts(ok=False, error=text, toolchain=toolchain(), arch=platform.machine()), log=text)
    return Build(
        binary=None,
        facts=Facts(
            ok=True,
            toolchain=toolchain(),
            arch=platform.machine(),
            compile_ms=(time.monotonic() - started) * 1e3,
            entries=tuple(EntryFacts(entry=launch.entry) for launch in kernel.launches),
            labels=("inherits-reference",) if _inherits(tree, kernel.launches[0].entry) else (),
        ),
    )


def _inherits(tree: ast.Module, entry: str) -> bool:
    """Whether a submission is the reference under another name as far as its text tells: derived from it, or calling
    it.
    """
    reference = {kernelbench.REFERENCE_ENTRY, gpumode.REFERENCE_ENTRY}
    if entry in reference:
        return False  # the reference itself
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return bool(used & reference) or gpumode.REFERENCE_ENTRY in called
