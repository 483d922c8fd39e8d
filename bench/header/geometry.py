"""A launch given on the command line: for a bare file, or in place of a launch of the header."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...store.errors import InputError
from ...store.models import Language, Launch, Task
from .entry import find_signature, split_entry
from .names import suggestion
from .signature import Signature


@dataclass(frozen=True)
class Geometry:
    """A launch given on the command line; what is empty or None is taken from the header, or left at its default."""

    entry: str | None = None
    args: tuple[str, ...] = ()
    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    smem: str | None = None

    def __bool__(self) -> bool:
        return self != Geometry()


def replace_launch(launches: Sequence[Launch], geometry: Geometry) -> tuple[Launch, ...]:
    """The header's launches with one replaced: that of the same entry, the only one, or all by one of another entry.

    Raises InputError where the geometry names no entry and there are several launches.
    """
    if geometry.entry is None and len(launches) > 1:
        raise InputError(
            "the header has several launches",
            value=", ".join(launch.entry for launch in launches),
            next_step="Say which entry the given launch replaces.",
        )
    entry = geometry.entry or launches[0].entry
    old = next((launch for launch in launches if launch.entry == entry), None)
    new = _launch(geometry, old or Launch(entry=entry, args=()))
    return (new,) if old is None else tuple(new if launch is old else launch for launch in launches)


def bare_launch(
    geometry: Geometry, signatures: Sequence[Signature], task: Task | None, language: Language
) -> tuple[Launch, ...]:
    """The launch of a bare file; entry and args may be left out where the file and the task's names leave no choice.

    Raises InputError for what is missing.
    """
    entry = geometry.entry
    if entry is None:
        if len(signatures) != 1:
            listed = "; ".join(map(str, signatures)) or "none"
            raise InputError(
                "the entry is missing, and the file does not have exactly one kernel",
                value=f"{len(signatures)} kernels",
                next_step=f"Name the entry. Found: {listed}.",
            )
        entry = signatures[0].name
    args = geometry.args or _args_by_name(find_signature(split_entry(entry)[0], signatures), task)
    if language == "cuda" and not (geometry.grid and geometry.block):
        raise InputError(
            "grid or block is missing", value=entry, next_step="Give both, for example grid cdiv(N, 256) and block 256."
        )
    if language == "triton" and not geometry.grid:
        raise InputError("the grid is missing", value=entry, next_step="Give it, for example grid cdiv(N, 1024).")
    return (_launch(geometry, Launch(entry=entry, args=args)),)


def _args_by_name(signature: Signature, task: Task | None) -> tuple[str, ...]:
    names = tuple(parameter.name for parameter in signature.parameters if not parameter.constant)
    known = [] if task is None else [*(tensor.name for tensor in task.tensors), *task.size_names]
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise InputError(
            "the args are missing, and a parameter is not named after the task",
            value=unknown,
            next_step=f"Give the args in parameter order. {suggestion(unknown, known)}",
        )
    return names


def _launch(geometry: Geometry, base: Launch) -> Launch:
    for what, axes in (("grid", geometry.grid), ("block", geometry.block)):
        if len(axes) > 3:
            raise InputError(
                f"the {what} has more than three axes", value=" ".join(axes), next_step="Give x, y and z at most."
            )
    return Launch(
        entry=geometry.entry or base.entry,
        args=geometry.args or base.args,
        grid=geometry.grid or base.grid,
        block=geometry.block or base.block,
        smem=geometry.smem or base.smem,
        constexpr=base.constexpr,
    )
