"""From what a caller names (a path, an id, a source text, a role) to a kernel and its task, saved in the store."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bench.devices.catalogue import device_kind, normal_name
from ..bench.header.block import find_header
from ..bench.header.files import SUFFIXES, language_of_file, read_source
from ..bench.header.load import Geometry, load_kernel
from ..bench.header.options import is_cpp
from ..bench.languages.c import toolchain as c_toolchain
from ..bench.languages.torch import toolchain as torch_toolchain
from ..bench.tasks.builtin import ShippedLanguage, builtin_kernel, builtin_names, builtin_task
from ..bench.tasks.load import resolve_task
from ..bench.tasks.peers import peer_task
from ..store import kernels, tasks
from ..store.database import Store
from ..store.errors import DeviceError, InputError, UnsupportedError
from ..store.models import Kernel, Language, Task
from .peers import load_peer, reference_of

ROLES = ("seed", "tuned", "library")
_DEVICE_OF: dict[Language, str] = {"c": "cpu", "cuda": "cuda:0", "triton": "cuda:0", "torch": "cuda:0"}


@dataclass(frozen=True)
class Named:
    """A kernel as somebody named it. `called` is how answers call it; `warnings` are about its file."""

    kernel: Kernel
    task: Task
    called: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """What goes with a kernel on the command line or in a call; see `bench.header.load.load_kernel`.

    admit: asked before a kernel or task file is read, raises InputError to refuse it; None: every file may be read.
    known: the task that is expected; a source text, or a copy elsewhere, need not have that task's files beside it.
    """

    task: str | None = None
    geometry: Geometry | None = None
    settings: dict[str, int] | None = None
    override: bool = False
    options: tuple[str, ...] = ()
    admit: Callable[[Path], None] | None = None
    known: Task | None = None


def device_for(kernel: Kernel, device: str | None) -> str:
    """Where to measure: the device named, else the language's own; PyTorch programs run on every device, and on a GPU
    where there is one. Raises UnsupportedError where the two do not fit.
    """
    chosen = normal_name(device or _DEVICE_OF[kernel.language])
    wanted = device_kind(_DEVICE_OF[kernel.language])
    if kernel.language == "torch":
        return normal_name(device or ("cuda:0" if Path("/dev/nvidiactl").exists() else "cpu"))
    if device_kind(chosen) != wanted:
        raise UnsupportedError(
            f"a {kernel.language} kernel does not run on {chosen}",
            value=kernel.name,
            next_step=f"Leave the device out, or use one of kind `{wanted}`.",
        )
    return chosen


def find_kernel(store: Store, named: str, asked: Asked | None = None) -> Named:
    """The kernel of a path, an id `k_…` or a source text. Raises InputError for everything that is wrong with it."""
    asked = asked or Asked()
    if named.startswith("k_") and "\n" not in named and not os.path.exists(named):  # noqa: PTH110 -- no error for any text
        kernel = kernels.resolve(store, named)
        task = tasks.get(store, kernel.task_id)
        assert task is not None, "kernels refer to tasks that are there"
        return Named(kernel, task, kernel.name)
    return load_file(named, asked)


def load_file(named: str | Path, asked: Asked) -> Named:
    """The kernel of a path or a source text, its id stamped with the toolchain that will compile it here."""
    if asked.admit is not None and (isinstance(named, Path) or "\n" not in named):
        asked.admit(Path(named))
    task = None if asked.task is None else task_named(asked.task, asked)
    peer = load_peer(named, task, asked.admit)
    if peer is not None:
        return Named(*peer)
    loaded = load_kernel(
        named,
        resolve_task=lambda spec, folder: _resolve(spec, folder, asked),
        task=task,
        geometry=asked.geometry,
        override=asked.override,
        settings=asked.settings,
        options=asked.options,
        known_tasks=lambda: [builtin_task(name) for name in builtin_names()],
    )
    called = str(named) if isinstance(named, Path) or "\n" not in named else loaded.kernel.name
    return Named(stamp(loaded.kernel), loaded.task, called, loaded.warnings)


def task_named(named: str, asked: Asked | None = None) -> Task:
    """The task of a built-in name, a task file, a folder with one, another bench's problem, or a kernel file, whose
    header says its task. Raises InputError.
    """
    asked = asked or Asked()
    path = Path(os.path.expanduser(named))  # noqa: PTH111 -- Path raises for users that are not there
    if path.suffix.lower() in SUFFIXES and os.path.isfile(path):  # noqa: PTH113 -- no error for any text
        if asked.admit is not None:
            asked.admit(path)
        language = language_of_file(path)
        if language != "torch" or find_header(read_source(path), language) is not None:
            return load_file(path, Asked(admit=asked.admit, known=asked.known)).task
    return _resolve(named, None, asked)


def _resolve(spec: str | dict[str, Any], folder: Path | None, asked: Asked) -> Task:
    admit, known = asked.admit, None if asked.known is None else _as_known(spec, folder, asked.known)
    if known is not None:
        return known
    peer = peer_task(spec, admit) if isinstance(spec, str) and spec not in builtin_names() and folder is None else None
    if peer is not None:
        return peer
    if admit is not None:
        if isinstance(spec, str) and spec not in builtin_names():
            admit(Path(spec) if folder is None else folder / spec)
        reference = spec.get("reference") if isinstance(spec, dict) else None
        if isinstance(reference, str) and folder is not None and not reference.startswith("einsum:"):
            admit(folder / reference.rpartition(":")[0])
    return resolve_task(spec, folder)


def _as_known(spec: str | dict[str, Any], folder: Path | None, known: Task) -> Task | None:
    """The task of a spec that names a file which is not there, but is the known task's; else None."""
    here = folder or Path()
    if isinstance(spec, str):
        path = Path(spec)
        name = path.parent.name if path.name == "task.toml" else path.stem
        gone = spec not in builtin_names() and not os.path.exists(here / path)  # noqa: PTH110 -- no error for any text
        return known if gone and name == known.name else None
    reference = spec.get("reference")
    if not isinstance(reference, str) or reference.startswith("einsum:") or not known.reference_source:
        return None
    file, _, function = reference.rpartition(":")
    if function != known.reference or (folder is not None and os.path.exists(here / file)):  # noqa: PTH110
        return None
    with tempfile.TemporaryDirectory(prefix="kforecast-task-") as copies:
        (Path(copies) / "reference.py").write_text(known.reference_source, encoding="utf-8")
        return resolve_task({**spec, "reference": f"reference.py:{function}"}, Path(copies))


def stamp(kernel: Kernel) -> Kernel:
    """The kernel with this machine's toolchain in its id; without a compiler here, as it is."""
    try:
        toolchain = _toolchain(kernel)
    except DeviceError:
        return kernel
    fields = kernel.model_dump(exclude={"id", "source_id", "toolchain"})
    fields |= {"launches": kernel.launches, "scratch": kernel.scratch}
    return Kernel.make(**fields, toolchain=toolchain)


def _toolchain(kernel: Kernel) -> str:
    if kernel.language == "c":
        return c_toolchain(is_cpp(kernel.options))
    if kernel.language == "cuda":
        from ..bench.languages.cuda.toolchain import find_toolchain

        return find_toolchain().identity
    if kernel.language == "torch":
        return torch_toolchain()
    if kernel.language == "triton":
        from ..bench.languages.triton.toolchain import find_triton

        return find_triton().identity
    return kernel.toolchain


def find_baseline(store: Store, named: str | None, candidate: Named) -> tuple[Named | None, str]:
    """The baseline of a candidate, and why it was chosen.

    named: as for `find_kernel`, or `seed`, `tuned`, `library` of the candidate's built-in task, or `none`; None: the
    task's seed kernel where it has one, else none. The baseline of another bench's problem is its reference.
    """
    if named == "none":
        return None, "no baseline was wanted"
    if candidate.task.problem is not None:
        return _of_problem(store, named, candidate)
    language = candidate.kernel.language
    if named is None or named in ROLES:
        path = _shipped(candidate.task, language, named or "seed")
        if path is not None:
            role = named or "seed"
            found = load_file(path, Asked())
            because = "asked for" if named else "no baseline was given, so the task's seed kernel is it"
            return Named(found.kernel, found.task, f"the {role} kernel", found.warnings), because
        if named is None:
            return None, "no baseline was given, and the task has no seed kernel"
        raise _no_such_role(candidate, named)
    found = find_kernel(
        store, named, Asked(task=candidate.task.name if candidate.task.name in builtin_names() else None)
    )
    if found.task.id != candidate.task.id:
        raise InputError(
            "baseline and candidate compute different tasks",
            value=f"{found.called}: {found.task.name}; {candidate.called}: {candidate.task.name}",
            next_step="Give both the same task; an inline task must be the same text in both files.",
        )
    if {"c", "torch"} == {found.kernel.language, language}:
        raise InputError(
            "baseline and candidate run in different lanes, whose times do not compare",
            value=f"{found.called} ({found.kernel.language}), {candidate.called} ({language})",
            next_step="Compare PyTorch programs with each other or, on a GPU, with CUDA and Triton kernels.",
        )
    return found, "asked for"


def _of_problem(store: Store, named: str | None, candidate: Named) -> tuple[Named, str]:
    reference = reference_of(candidate.task)
    assert reference is not None, "a task with a problem has its reference"
    if named in (None, "seed", "library", "reference"):
        because = "asked for" if named else "no baseline was given, so the problem's reference is it"
        return Named(reference, candidate.task, "the reference"), because
    assert named is not None
    if named in ROLES:
        raise _no_such_role(candidate, named)
    if named.startswith("k_") and "\n" not in named and not os.path.exists(named):  # noqa: PTH110
        found = find_kernel(store, named)
    else:
        found = Named(*(load_peer(named, candidate.task, None) or (reference, candidate.task, named)))
    if found.task.id != candidate.task.id:
        raise InputError(
            "baseline and candidate are of different problems",
            value=f"{found.called}: {found.task.name}; {candidate.called}: {candidate.task.name}",
            next_step="Compare submissions to one problem.",
        )
    return found, "asked for"


def _shipped(task: Task, language: Language, role: str) -> Path | None:
    """Triton kernels run where CUDA's do: the shipped CUDA kernels are theirs to beat as well. On a GPU the library is
    PyTorch for every language.
    """
    if task.name not in builtin_names() or builtin_task(task.name).id != task.id:
        return None
    shipped: ShippedLanguage = "c" if language == "c" else "torch" if role == "library" else "cuda"
    if language == "torch" and shipped != "torch":
        return None
    return builtin_kernel(task.name, shipped, role)  # type: ignore[arg-type]  # checked against ROLES by the caller


def _no_such_role(candidate: Named, role: str) -> InputError:
    language = candidate.kernel.language
    offered = [r for r in ROLES if _shipped(candidate.task, language, r) is not None]
    other = "a file" if language == "c" else "a PyTorch file that has a kernel header"
    return InputError(
        f"the task comes with no {role} kernel for {language}",
        value=candidate.task.name,
        next_step=f"It has: {', '.join(offered) or 'none'}. Or give {other} as the baseline.",
    )


def remember(store: Store, found: Sequence[Named]) -> None:
    """Save kernels and their tasks: requests name them by id."""
    for one in found:
        tasks.save(store, one.task)
        kernels.save(store, one.kernel)
