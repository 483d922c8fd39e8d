"""What is known of a kernel without running it: does it compile, what it takes of the machine, what it is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..bench.header.geometry import Geometry
from ..bench.header.options import labels
from ..bench.header.plan import plan_launches
from ..bench.header.signature import Signature, signatures
from ..store.database import Store
from ..store.errors import InputError, KforecastError, UnsupportedError
from ..store.models import EntryFacts, Facts, Kernel, Language, Task
from ..store.paths import cache_dir
from .kernels import Asked, Named, find_kernel, load_file

DEFAULT_ARCH = "sm_90"


class FactsResult(BaseModel):
    """Compile verdict and facts of one kernel. occupancy: 0..1, the lowest over the timed cases; null: not known.

    instruction_mix: instructions by kind, of the whole binary, as they stand, not as they run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    summary: str
    ok: bool
    error: str | None
    name: str
    kernel_id: str
    task: str
    language: Language
    arch: str
    toolchain: str
    code_bytes: int | None
    compile_ms: float | None
    entries: tuple[EntryFacts, ...]
    instruction_mix: dict[str, int]
    warnings: tuple[str, ...]
    labels: tuple[str, ...]
    diagnostics: str | None
    next: str


def facts(
    kernel: str,
    *,
    task: str | None = None,
    arch: str | None = None,
    geometry: Geometry | None = None,
    settings: dict[str, int] | None = None,
    override: bool = False,
    options: tuple[str, ...] = (),
) -> FactsResult:
    """Compile a kernel for an architecture and say what the compiler knows. Needs no GPU and runs nothing.

    kernel: a path, an id `k_…`, or source text if it contains a newline. arch: CUDA and Triton only, e.g. `sm_90`.
    Raises InputError for what is wrong with the file or its header, DeviceError without a compiler, UnsupportedError
    for a language that has no facts yet. A compile error is an answer whose `ok` is false.
    """
    found = _find(kernel, Asked(task, geometry, settings, override, options))
    result, log = facts_of(found.kernel, found.task, arch)
    return FactsResult(
        summary=_summary(found.called, result),
        ok=result.ok,
        error=result.error,
        name=found.called,
        kernel_id=found.kernel.id,
        task=found.task.name,
        language=found.kernel.language,
        arch=result.arch,
        toolchain=result.toolchain,
        code_bytes=result.code_bytes,
        compile_ms=result.compile_ms,
        entries=result.entries,
        instruction_mix=result.instruction_mix,
        warnings=(*found.warnings, *((result.warnings,) if result.warnings else ())),
        labels=labels(found.kernel.options, found.kernel.language),
        # Of Triton the log of a good compilation says what the compiler was told of the arguments.
        diagnostics=log or result.error if not result.ok or found.kernel.language == "triton" else None,
        next="Measure it: facts do not say how fast it is." if result.ok else "Fix the first error, then ask again.",
    )


def facts_of(kernel: Kernel, task: Task, arch: str | None = None) -> tuple[Facts, str]:
    """The facts of a kernel and the compiler's log; arch: CUDA and Triton, None is sm_90. Raises as `facts` does."""
    parsed = tuple(signatures(kernel.source, kernel.language, kernel.includes))
    if kernel.language == "c":
        return _c_facts(kernel, parsed, arch)
    if kernel.language == "cuda":
        return _cuda_facts(kernel, task, parsed, arch or DEFAULT_ARCH)
    if kernel.language == "triton":
        return _triton_facts(kernel, task, parsed, arch or DEFAULT_ARCH)
    raise UnsupportedError(
        "this version has no facts of kernels in that language",
        value=kernel.language,
        next_step="Facts are there for C, CUDA and Triton kernels.",
    )


def facts_many(
    kernels_given: Sequence[str],
    *,
    on_progress: Callable[[str], None] = lambda text: None,
    task: str | None = None,
    arch: str | None = None,
    geometry: Geometry | None = None,
    settings: dict[str, int] | None = None,
    override: bool = False,
    options: tuple[str, ...] = (),
) -> list[FactsResult | KforecastError]:
    """`facts` of several kernels in input order; what is wrong with one does not keep the others from answering."""
    answers: list[FactsResult | KforecastError] = []
    for number, kernel in enumerate(kernels_given, 1):
        on_progress(f"compiling {number} of {len(kernels_given)}: {kernel}")
        try:
            answer = facts(
                kernel,
                task=task,
                arch=arch,
                geometry=geometry,
                settings=settings,
                override=override,
                options=options,
            )
            answers.append(answer)
        except KforecastError as error:
            answers.append(error)
    return answers


def _find(kernel: str, asked: Asked) -> Named:
    if not kernel.startswith("k_") or "\n" in kernel or Path(kernel).exists():
        return load_file(kernel, asked)
    if asked != Asked():
        step = "Leave them out, or give the kernel's file."
        raise InputError(
            "a stored kernel is complete: no task, launch, setting or option", value=kernel, next_step=step
        )
    with Store.open_readonly() as store:
        return find_kernel(store, kernel)


def _c_facts(kernel: Kernel, parsed: Sequence[Signature], arch: str | None) -> tuple[Facts, str]:
    from ..bench.devices.cpu.machine import library_defines
    from ..bench.languages.c import compile_c

    if arch is not None:
        step = "Leave --arch out: C kernels are compiled for the processor of this machine."
        raise InputError("an architecture was given for a C kernel", value=arch, next_step=step)
    build = compile_c(kernel, parsed, cache=cache_dir(), defines=library_defines(kernel))
    return build.facts, build.log


def _cuda_facts(kernel: Kernel, task: Task, parsed: Sequence[Signature], arch: str) -> tuple[Facts, str]:
    from ..bench.languages.cuda.compile import compile_cuda
    from ..bench.languages.cuda.facts import with_occupancy

    constants = _constants(arch)
    cases = task.timed_on("cuda") or task.checked
    planned = [launch for case in cases for launch in plan_launches(kernel, task, case, parsed, constants)]
    build = compile_cuda(kernel, {launch.entry: launch.expression for launch in planned}, arch=arch)
    return with_occupancy(build.facts, planned), build.log


def _triton_facts(kernel: Kernel, task: Task, parsed: Sequence[Signature], arch: str) -> tuple[Facts, str]:
    from ..bench.languages.cuda.facts import with_occupancy
    from ..bench.languages.triton.compile import compile_triton

    constants = _constants(arch)
    planned = [plan_launches(kernel, task, case, parsed, constants) for case in task.timed_on("cuda") or task.checked]
    build = compile_triton(kernel, task, parsed, arch=arch, constants=constants)
    if not build.ok:
        return build.facts, build.log
    # Triton's shared memory is dynamic, and the facts of its entries count it already.
    launches = [replace(launch, smem=0) for case in planned for _, launch in build.placed(case)]
    return with_occupancy(build.facts, launches), build.log


def _constants(arch: str) -> dict[str, int]:
    """The names that geometry may use, as far as an architecture alone tells."""
    from ..bench.languages.cuda.occupancy import WARP, is_known, limits_of
    from ..bench.languages.cuda.options import check_arch

    check_arch(arch)
    return {"WARP": WARP, **({"SMEM_MAX": limits_of(arch).shared_block} if is_known(arch) else {})}


def _summary(name: str, found: Facts) -> str:
    if not found.ok:
        return f"{name} does not compile for {found.arch}: {found.error}"
    parts = []
    for entry in found.entries:
        said = []
        if entry.registers is not None:
            said.append(f"{entry.registers} registers")
        if entry.spill_bytes:
            said.append(f"{entry.spill_bytes} bytes spilled")
        if entry.shared_bytes:
            kind = "" if found.toolchain.startswith("triton") else "static "  # Triton says how much it takes at launch
            said.append(f"{entry.shared_bytes} bytes of {kind}shared memory")
        if entry.occupancy is not None:
            said.append(f"occupancy {entry.occupancy:.0%}")
        if said:
            parts.append(f"{entry.entry}: {', '.join(said)}")
    return f"{name} compiles for {found.arch}{'. ' if parts else '.'}{'; '.join(parts)}"
