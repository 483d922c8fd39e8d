"""A Triton file to a cubin in the cache, needing no GPU; an error of the file is a Build too."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ....store.errors import KforecastError
from ....store.models import Case, EntryFacts, Facts, Kernel, Task
from ....store.paths import cache_dir
from ...header.plan import TRITON_WARPS, PlannedLaunch, plan_launches
from ...header.signature import Signature
from ..build import Build, Form
from ..cuda.cache import BuildCache, Entry
from ..cuda.messages import clipped
from ..cuda.options import check_arch
from ..cuda.ptx import precision_labels, ptx_mix, writable_state
from ..cuda.resources import Resources, from_ptxas
from .abi import read_abi, renamed, trailing_pointers, without_lines
from .pool import PROGRAM_NAME, TritonPool, shared_triton_pool
from .specialise import Forms, Unit, described, forms_for, options_of

_FORMAT = 3
"""Raised when an entry of the cache would mean something else than before."""

_MOST_WORDS = 500
_SMEM_MOST = 1 << 20
_SCRATCH_MOST = 1 << 16


class Numbers(BaseModel):
    """What a worker says of one unit besides its PTX. It ran the file's own code, so nothing of it is taken on trust:
    what can be read from the PTX is, and the rest is bounded and wrong at the kernel's own cost.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    shared: Annotated[int, Field(ge=0, le=_SMEM_MOST)]
    num_ctas: Annotated[int, Field(ge=0, le=16)]
    global_scratch_size: Annotated[int, Field(ge=0, le=_SCRATCH_MOST)]
    profile_scratch_size: Annotated[int, Field(ge=0)]
    tmem_size: Annotated[int, Field(ge=0)]
    launch_cooperative_grid: bool
    launch_pdl: bool


_NUMBERS = TypeAdapter(list[Numbers])


@dataclass(frozen=True)
class _Job:
    kernel: Kernel
    units: tuple[Unit, ...]
    constants: dict[str, int]
    arch: int
    deadline_s: float


def compile_triton(
    kernel: Kernel,
    task: Task,
    signatures: Sequence[Signature],
    *,
    arch: str,
    constants: Mapping[str, int],
    deadline_s: float = 60.0,
    pool: TritonPool | None = None,
    cache: BuildCache | None = None,
) -> Build:
    """Compile a kernel's launches for one architecture (`sm_90`), in the forms that the task's cases need.

    constants: as `plan_launches` takes them; a constexpr of such a name gets it too. `facts.ok` is false for a file
    that does not run or compile, does not within `deadline_s`, or asks for what we do not launch. Raises InputError for
    a bad architecture, DeviceError where there is no Triton or the machinery fails.
    """
    check_arch(arch)
    pool = pool or shared_triton_pool()
    cache = cache or default_triton_cache()
    file = _file_name(kernel.name)
    identity = pool.toolchain.identity
    try:
        forms = _forms(kernel, task, signatures, constants)
    except KforecastError as error:
        return _failure(str(error), arch, identity)
    units = tuple(dict.fromkeys(unit for of_launch in forms.units for unit in of_launch))
    named = {**constants, **kernel.tunables}
    used = {entry.name for signature in signatures for entry in signature.parameters if entry.constant}
    job = _Job(
        kernel,
        units,
        {name: value for name, value in named.items() if name in used},
        int(re.sub(r"\D", "", arch)),
        deadline_s,
    )
    key = _key(job, identity)
    hit = cache.get(key)
    if hit is None:
        data, files, lasting = _compile(job, pool)
        if not lasting:
            return _failure(_in_users_name(data["error"], file), arch, identity)
        hit = cache.put(key, data, files)
    build = _build(hit, kernel, forms, units, file, arch, identity)
    most = constants.get("SMEM_MAX")
    taken = max((form.smem for form in build.forms), default=0)
    if most is not None and taken > most:
        said = f"{file}: error: a block takes {taken} bytes of shared memory, and the device allows {most}"
        return _failure(f"{said}\nSmaller blocks or fewer num_stages take less.", arch, identity)
    return build


@lru_cache(maxsize=1)
def _cache_at(root: Path) -> BuildCache:
    return BuildCache(root)


def default_triton_cache() -> BuildCache:
    """The cache in the user's cache directory."""
    return _cache_at(cache_dir() / "triton")


def _forms(kernel: Kernel, task: Task, signatures: Sequence[Signature], constants: Mapping[str, int]) -> Forms:
    """The forms for every case that can be planned. A case that cannot fails when it is to run, and says so then; where
    none can, that is an error here.
    """
    error: KforecastError | None = None

    def planned(cases: Sequence[Case]) -> list[tuple[PlannedLaunch, ...]]:
        nonlocal error
        found = []
        for case in cases:
            try:
                found.append(plan_launches(kernel, task, case, signatures, constants))
            except KforecastError as raised:
                error = error or raised
        return found

    timed, checked = planned(task.timed_on("cuda")), planned(task.checked)
    if not timed and not checked:
        assert error is not None, "a task has cases"
        raise error
    return forms_for(kernel, task, signatures, timed, checked)


def _compile(job: _Job, pool: TritonPool) -> tuple[dict[str, Any], dict[str, bytes], bool]:
    """What goes into the cache, and whether it may: a failure that may be the machine's is told, not kept."""
    outcome = pool.to_ptx(
        job.kernel.source,
        includes=job.kernel.includes,
        units=[_message(unit, job.constants) for unit in job.units],
        options=options_of(job.kernel),
        arch=job.arch,
        deadline_s=job.deadline_s,
    )
    if not outcome.ok:
        said = outcome.log if outcome.failure is None else _in_words(outcome.failure)
        return {"ok": False, "error": clipped(said)}, {}, outcome.failure is None
    try:
        numbers = _NUMBERS.validate_json(outcome.files["numbers"])
        texts = [without_lines(outcome.files[f"{number}.ptx"].decode()) for number in range(len(job.units))]
        described = [_unit(*each) for each in zip(job.units, numbers, texts, range(len(texts)), strict=True)]
    except (ValueError, KeyError) as error:
        # A file that reaches into Triton can make it say anything.
        why = _first(error) if isinstance(error, ValidationError) else str(error)
        said = f"{PROGRAM_NAME}: error: what Triton made of it cannot be launched: {why}"
        return {"ok": False, "error": clipped(said)}, {}, True
    texts = [renamed(text, f"__{number}") if number else text for number, text in enumerate(texts)]
    begun = outcome.seconds
    outcome = pool.assemble(texts, arch=job.arch, deadline_s=job.deadline_s)
    if not outcome.ok or "kernel.cubin" not in outcome.files:
        said = outcome.failure or f"{PROGRAM_NAME}: error: ptxas does not take the PTX: {outcome.log.strip()}"
        return {"ok": False, "error": clipped(said)}, {}, outcome.failure is None
    resources = from_ptxas(outcome.log)
    data = {
        "ok": True,
        "compile_ms": round((begun + outcome.seconds) * 1e3, 2),
        "units": described,
        "mixes": [ptx_mix(text) for text in texts],
        "labels": [list(precision_labels(text)) for text in texts],
        "stateful": any(writable_state(text) for text in texts),
        "resources": {symbol: vars(found) for symbol, found in resources.items()},
    }
    return data, {"kernel.cubin": outcome.files["kernel.cubin"], "kernel.ptx": "\n".join(texts).encode()}, True


def _message(unit: Unit, constants: Mapping[str, int]) -> dict[str, Any]:
    numbered = list(enumerate(unit.parameters))
    return {
        "entry": unit.entry,
        "names": unit.names,
        "types": unit.types,
        "ones": [i for i, parameter in numbered if parameter.equals is not None],
        "multiples": [i for i, one in numbered if one.equals is None and (one.dtype is None or one.multiple > 1)],
        "constants": {**constants, **dict(unit.constexpr)},
    }


def _unit(unit: Unit, numbers: Numbers, ptx: str, number: int) -> dict[str, Any]:
    """How one unit is launched. Raises ValueError for what we do not launch."""
    abi = read_abi(ptx)
    for needed, what in (
        (numbers.profile_scratch_size, "a profiler's memory; leave the profiler out"),
        (numbers.launch_cooperative_grid, "a cooperative launch; split it into several launches"),
        (numbers.launch_pdl, "a programmatic dependent launch; leave it out"),
    ):
        if needed:
            hint = "or measure the file behind a PyTorch wrapper, as `ModelNew`, without launches in the header"
            raise ValueError(f"it needs {what}, {hint}")
    if numbers.num_ctas > 1 and abi.ctas != numbers.num_ctas:
        raise ValueError(f"num_ctas = {numbers.num_ctas}, but its PTX does not fix the cluster; leave num_ctas out")
    trailing = trailing_pointers(abi, unit.parameters)
    if numbers.global_scratch_size and not trailing:
        raise ValueError("it needs memory of Triton's own, but its PTX takes no pointer to it")
    return {
        "symbol": abi.symbol + (f"__{number}" if number else ""),
        "threads": abi.threads or 32 * TRITON_WARPS,
        "smem": numbers.shared,
        "ctas": abi.ctas,
        "trailing": trailing,
        "scratch": numbers.global_scratch_size,
        "target": abi.target,
    }


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _in_words(failure: str) -> str:
    """How a worker's child ended, in the words of a file that ended it."""
    if "exit code 0" in failure:
        failure = "it ended the compiler's process while it was imported (exit code 0)"
    elif failure.startswith("the compiler"):
        failure = f"the file, or its compiler, {failure.removeprefix('the compiler').strip()[:_MOST_WORDS]}"
    hint = "A Triton file is run when it is imported: what stands outside its functions has to end, and quietly."
    return f"{PROGRAM_NAME}: error: {failure}\n{hint}"


def _key(job: _Job, identity: str) -> str:
    content = {
        "format": _FORMAT,
        "source": job.kernel.source,
        "includes": job.kernel.includes,
        "units": [asdict(unit) for unit in job.units],
        "constants": job.constants,
        "options": options_of(job.kernel),
        "arch": job.arch,
        "toolchain": identity,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _build(
    entry: Entry, kernel: Kernel, forms: Forms, units: tuple[Unit, ...], file: str, arch: str, identity: str
) -> Build:
    data = entry.data
    if not data["ok"]:
        return _failure(_in_users_name(data["error"], file), arch, identity)
    numbers = {unit: number for number, unit in enumerate(units)}
    built = [
        _form(position, unit, data["units"][numbers[unit]])
        for position, of_position in enumerate(forms.units)
        for unit in of_position
    ]
    first: dict[str, int] = {}
    for launch, of_launch in zip(kernel.launches, forms.units, strict=True):
        first.setdefault(launch.entry, numbers[of_launch[0]])
    timed = sorted({numbers[unit] for i, count in enumerate(forms.timed) for unit in forms.units[i][:count]})
    mix: dict[str, int] = {}
    for number in timed:
        for name, count in data["mixes"][number].items():
            mix[name] = mix.get(name, 0) + count
    labels = sorted({label for number in timed for label in data["labels"][number]})
    facts = Facts(
        ok=True,
        toolchain=identity,
        arch=data["units"][0]["target"],
        code_bytes=entry.files["kernel.cubin"].stat().st_size,
        compile_ms=data["compile_ms"],
        entries=tuple(_entry_facts(name, data["units"][number], data["resources"]) for name, number in first.items()),
        instruction_mix=dict(sorted(mix.items(), key=lambda item: (-item[1], item[0]))),
        labels=(*labels, *(["stateful"] if data["stateful"] else [])),
    )
    symbols = {name: data["units"][number]["symbol"] for name, number in first.items()}
    return Build(entry.files["kernel.cubin"], facts, symbols, _said(kernel, forms), tuple(built))


def _form(launch: int, unit: Unit, built: Mapping[str, Any]) -> Form:
    kept = {key: built[key] for key in ("symbol", "threads", "smem", "ctas", "trailing", "scratch")}
    return Form(launch=launch, parameters=unit.parameters, constexpr=unit.constexpr, **kept)


def _entry_facts(name: str, unit: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]) -> EntryFacts:
    resources = Resources(**found.get(unit["symbol"], {}))
    return EntryFacts(
        entry=name,
        registers=resources.registers,
        spill_bytes=resources.spill_bytes,
        shared_bytes=resources.shared_bytes + unit["smem"],
        local_bytes=resources.local_bytes,
    )


def _said(kernel: Kernel, forms: Forms) -> str:
    """What each form of each launch assumes, a line each."""
    lines = []
    for launch, of_launch in zip(kernel.launches, forms.units, strict=True):
        for unit in of_launch:
            lines.append(f"{launch.entry}: compiled for {described(unit) or 'any arguments'}")
    return "\n".join(lines)


def _file_name(kernel_name: str) -> str:
    name = re.sub(r"[^\w.+-]", "_", kernel_name.replace("\\", "/").rsplit("/", 1)[-1]) or "kernel"
    return name if name.endswith(".py") else f"{name}.py"


def _in_users_name(text: str, file: str) -> str:
    return text.replace(PROGRAM_NAME, file)


def _failure(error: str, arch: str, identity: str) -> Build:
    return Build(None, Facts(ok=False, error=error, arch=arch, toolchain=identity), {}, error)
