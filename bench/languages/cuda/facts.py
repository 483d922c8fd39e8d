"""What is known of a CUDA kernel without running it: compile verdict, resources, occupancy, PTX opcode mix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....store.models import EntryFacts, Facts, Kernel
from .cache import BuildCache
from .compile import compile_cuda
from .occupancy import is_known, occupancy
from .pool import CompilePool


@dataclass(frozen=True)
class LaunchShape:
    """What occupancy depends on in one planned launch: threads a block, dynamic shared bytes a block."""

    entry: str
    threads: int
    dynamic_shared: int = 0


def cuda_facts(
    kernel: Kernel,
    launches: Sequence[LaunchShape] = (),
    *,
    arch: str,
    entries: Mapping[str, str] | None = None,
    include_dirs: Sequence[Path] = (),
    deadline_s: float = 60.0,
    pool: CompilePool | None = None,
    cache: BuildCache | None = None,
) -> Facts:
    """Facts of a kernel for an architecture: those of `compile_cuda`, with the occupancy of the planned launches.

    Errors as compile_cuda; a compile error is Facts whose `ok` is false.
    """
    build = compile_cuda(
        kernel, entries, arch=arch, include_dirs=include_dirs, deadline_s=deadline_s, pool=pool, cache=cache
    )
    return with_occupancy(build.facts, launches)


def with_occupancy(facts: Facts, launches: Iterable[LaunchShape]) -> Facts:
    """The facts with each entry's occupancy, the lowest where it is launched in several shapes (cases differ).

    It stays None for an entry that is not launched, whose registers are unknown, or on an unknown architecture.
    """
    if not facts.ok or not is_known(facts.arch):
        return facts
    shapes: dict[str, list[LaunchShape]] = {}
    for launch in launches:
        shapes.setdefault(launch.entry, []).append(launch)
    entries = tuple(_occupied(entry, shapes.get(entry.entry, []), facts.arch) for entry in facts.entries)
    return facts.model_copy(update={"entries": entries})


def _occupied(entry: EntryFacts, shapes: Sequence[LaunchShape], arch: str) -> EntryFacts:
    if entry.registers is None or not shapes:
        return entry
    fractions = [
        occupancy(
            arch,
            registers=entry.registers,
            threads=shape.threads,
            shared_bytes=(entry.shared_bytes or 0) + shape.dynamic_shared,
        ).fraction
        for shape in shapes
    ]
    return entry.model_copy(update={"occupancy": min(fractions)})
