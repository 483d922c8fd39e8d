"""What is known of a CUDA kernel without running it: compile verdict, resources, occupancy, PTX opcode mix."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from ....store.models import EntryFacts, Facts, Kernel
from ...header.plan import PlannedLaunch
from .cache import BuildCache
from .compile import compile_cuda
from .occupancy import is_known, occupancy
from .pool import CompilePool


def cuda_facts(
    kernel: Kernel,
    launches: Sequence[PlannedLaunch] = (),
    *,
    arch: str,
    include_dirs: Sequence[Path] = (),
    deadline_s: float = 60.0,
    pool: CompilePool | None = None,
    cache: BuildCache | None = None,
) -> Facts:
    """Facts of a kernel for an architecture: those of `compile_cuda`, with the occupancy of the planned launches.

    launches: of one case or of several; without any, the kernel's entries are taken as they are written.
    Errors as compile_cuda; a compile error is Facts whose `ok` is false.
    """
    entries = {launch.entry: launch.expression for launch in launches}
    build = compile_cuda(
        kernel, entries, arch=arch, include_dirs=include_dirs, deadline_s=deadline_s, pool=pool, cache=cache
    )
    return with_occupancy(build.facts, launches)


def with_occupancy(facts: Facts, launches: Iterable[PlannedLaunch]) -> Facts:
    """The facts with each entry's occupancy, the lowest where it is launched in several shapes (cases differ).

    It stays None for an entry that is not launched, whose registers are unknown, or on an unknown architecture.
    """
    if not facts.ok or not is_known(facts.arch):
        return facts
    shapes: dict[str, list[PlannedLaunch]] = {}
    for launch in launches:
        shapes.setdefault(launch.entry, []).append(launch)
    entries = tuple(_occupied(entry, shapes.get(entry.entry, []), facts.arch) for entry in facts.entries)
    return facts.model_copy(update={"entries": entries})


def _occupied(entry: EntryFacts, shapes: Sequence[PlannedLaunch], arch: str) -> EntryFacts:
    if entry.registers is None or not shapes:
        return entry
    fractions = [
        occupancy(
            arch,
            registers=entry.registers,
            threads=math.prod(shape.block),
            shared_bytes=(entry.shared_bytes or 0) + shape.smem,
        ).fraction
        for shape in shapes
    ]
    return entry.model_copy(update={"occupancy": min(fractions)})
