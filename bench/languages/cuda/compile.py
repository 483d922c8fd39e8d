"""CUDA source to a cubin in the cache: NVRTC first, nvcc where NVRTC cannot; a compile error is a Build too."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ....store.models import EntryFacts, Facts, Kernel
from ....store.paths import cache_dir
from ...header.signature import signatures
from ..build import Build
from . import nvcc
from .cache import BuildCache, Entry
from .includes import STAND_INS, refused_include
from .messages import PROGRAM_NAME, error_text, file_name, in_users_name, missing_header, warnings_text
from .options import arch_specific, check_arch, compiler_flags, template_parameters
from .pool import CompilePool, Outcome, shared_pool
from .ptx import precision_labels, ptx_mix, writable_state
from .resources import Resources, from_ptxas, without_ptxas_info
from .toolchain import Toolchain

_FORMAT = 2
"""Raised when an entry of the cache would mean something else than before."""

_NOT_THIS_ARCH = "not supported on .target"


def compile_cuda(
    kernel: Kernel,
    entries: Mapping[str, str] | None = None,
    *,
    arch: str,
    include_dirs: Sequence[Path] = (),
    deadline_s: float = 60.0,
    pool: CompilePool | None = None,
    cache: BuildCache | None = None,
) -> Build:
    """Compile a kernel for one architecture (`sm_90`), needing no GPU.

    entries: for each launch entry the name expression to ask the compiler for, e.g. `gemm_part<128, 64, 32>`; the entry
    itself, its tunables as numbers, where it is not named. Tunables are also macros (`-D`), save those whose name a
    template head declares. include_dirs: the user's `-I` folders. Where the program uses instructions that only
    the architecture's own variant has, it is compiled for that (`sm_90a`), and Facts.arch says so.

    The Build's symbols are the lowered names by launch entry. `facts.ok` is false for a program that does not
    compile, does not within `deadline_s`, or crashes the compiler. Raises InputError for a bad option or
    architecture, DeviceError where there is no compiler or the machinery fails.
    """
    check_arch(arch)
    # A macro of that name would break `template <int BM>`; such a tunable reaches the program as the template's
    # argument.
    own = template_parameters("\n".join([kernel.source, *kernel.includes.values()]))
    macros = {name: value for name, value in kernel.tunables.items() if name not in own}
    flags = compiler_flags(kernel.options, macros)
    pool = pool or shared_pool()
    cache = cache or default_cache()
    file = file_name(kernel.name)
    written = {launch.entry: _with_values(launch.entry, kernel.tunables) for launch in kernel.launches}
    wanted = {entry: (entries or {}).get(entry, expression) for entry, expression in written.items()}
    toolchain = pool.toolchain
    roots = [folder.resolve() for folder in include_dirs]
    for name, text in ((PROGRAM_NAME, kernel.source), *kernel.includes.items()):
        refusal = refused_include(name, text, [*toolchain.include_dirs, *roots], kernel.includes)
        if refusal is not None:
            return _failure(in_users_name(refusal, file), arch, toolchain.identity)
    job = _Job(kernel, tuple(dict.fromkeys(wanted.values())), arch, tuple(flags), tuple(roots), deadline_s)
    key = _key(job, toolchain)
    hit = cache.get(key)
    if hit is None:
        compiled = _compile(job, pool)
        if not compiled.lasting:
            return _failure(in_users_name(compiled.data["error"], file), arch, compiled.data["toolchain"])
        hit = cache.put(key, compiled.data, compiled.files)
    return _build(hit, wanted, file)


def _with_values(entry: str, tunables: Mapping[str, int]) -> str:
    """`part<BM, 2>` as `part<128, 2>`: tunables are numbers in template arguments."""
    name, bracket, arguments = entry.partition("<")
    numbers = re.sub(r"\b[A-Za-z_]\w*", lambda match: str(tunables.get(match.group(), match.group())), arguments)
    return name + bracket + numbers


@lru_cache(maxsize=1)
def _cache_at(root: Path) -> BuildCache:
    return BuildCache(root)


def default_cache() -> BuildCache:
    """The cache in the user's cache directory."""
    return _cache_at(cache_dir() / "cuda")


@dataclass(frozen=True)
class _Job:
    kernel: Kernel
    expressions: tuple[str, ...]
    arch: str
    flags: tuple[str, ...]
    roots: tuple[Path, ...]
    deadline_s: float


@dataclass(frozen=True)
class _Compiled:
    """What goes into the cache. `lasting` is false for a failure that may be the machine's: it is told, not kept."""

    data: dict[str, Any]
    files: dict[str, bytes]
    lasting: bool = True


def _compile(job: _Job, pool: CompilePool) -> _Compiled:
    by_nvrtc = _nvrtc(job, job.arch, pool)
    arch, compiler = job.arch, pool.toolchain.identity
    variant = arch_specific(job.arch)
    if _NOT_THIS_ARCH in by_nvrtc.log and variant is not None:
        by_nvrtc, arch = _nvrtc(job, variant, pool), variant
    outcome = by_nvrtc
    if missing_header(by_nvrtc.log) is not None and nvcc.usable(pool):
        flags = [*job.flags, *(f"-I{root}" for root in job.roots), "--ptxas-options=-v"]
        by_nvcc = nvcc.compile_nvcc(
            pool,
            job.kernel.source,
            arch=arch,
            flags=flags,
            headers=job.kernel.includes,
            entries=job.expressions,
            deadline_s=job.deadline_s,
        )
        if by_nvcc.ok or missing_header(by_nvcc.log) is None:
            outcome = by_nvcc
            ptx = by_nvcc.files.get("ptx", b"").decode(errors="replace")
            compiler = f"nvcc {nvcc.version_in(ptx)}" if by_nvcc.ok else "nvcc"
    data: dict[str, Any] = {"ok": outcome.ok, "log": outcome.log, "toolchain": compiler, "arch": arch}
    if not outcome.ok:
        kernels = {found.name for found in signatures(job.kernel.source, "cuda", job.kernel.includes)}
        error = outcome.failure or error_text(outcome.log, kernels=kernels)
        missing = missing_header(outcome.log)
        if missing is not None and not nvcc.usable(pool):
            error += f"\nNVRTC has no host headers: if {missing} is one, nvcc and g++ are needed and are not here."
        # A header may be there tomorrow; a deadline or a crash may be the machine's.
        return _Compiled({**data, "error": error}, {}, lasting=outcome.failure is None and missing is None)
    ptx = outcome.files["ptx"].decode(errors="replace")
    data |= {
        "symbols": outcome.symbols,
        "compile_ms": round(outcome.seconds * 1e3, 2),
        "mix": ptx_mix(ptx, set(outcome.symbols.values())),
        "labels": [*precision_labels(ptx), *(["stateful"] if writable_state(ptx) else [])],
        "resources": {symbol: vars(found) for symbol, found in from_ptxas(outcome.log).items()},
    }
    return _Compiled(data, {"kernel.cubin": outcome.files["cubin"], "kernel.ptx": outcome.files["ptx"]})


def _nvrtc(job: _Job, arch: str, pool: CompilePool) -> Outcome:
    folders = [*job.roots, *pool.toolchain.include_dirs]
    options = [f"--gpu-architecture={arch}", "-default-device", "--ptxas-options=-v", *job.flags]
    return pool.compile(
        job.kernel.source,
        name=PROGRAM_NAME,
        options=[*options, *(f"-I{folder}" for folder in folders)],
        headers=STAND_INS,
        files=job.kernel.includes,
        entries=job.expressions,
        deadline_s=job.deadline_s,
    )


def _key(job: _Job, toolchain: Toolchain) -> str:
    """Everything that decides what the compiler makes. Folders count by their files' names, sizes and times."""
    content = {
        "format": _FORMAT,
        "source": job.kernel.source,
        "includes": job.kernel.includes,
        "expressions": job.expressions,
        "flags": job.flags,
        "arch": job.arch,
        "toolchain": toolchain.identity,
        "headers": toolchain.headers,
        "stand-ins": STAND_INS,
        "nvcc": _stamp(toolchain.nvcc),
        "roots": [[str(root), _folder_stamp(root)] for root in job.roots],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _stamp(path: Path | None) -> str:
    if path is None or not path.exists():
        return ""
    facts = path.stat()
    return f"{path} {facts.st_size} {facts.st_mtime_ns}"


def _folder_stamp(root: Path) -> str:
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            digest.update(_stamp(Path(folder) / name).encode())
    return digest.hexdigest()


def _build(entry: Entry, wanted: Mapping[str, str], file: str) -> Build:
    data = entry.data
    log = in_users_name(data["log"], file)
    if not data["ok"]:
        failed = _failure(in_users_name(data["error"], file), data["arch"], data["toolchain"])
        return Build(None, failed.facts, {}, without_ptxas_info(log))
    symbols = {launch: data["symbols"][expression] for launch, expression in wanted.items()}
    facts = Facts(
        ok=True,
        toolchain=data["toolchain"],
        arch=data["arch"],
        code_bytes=entry.files["kernel.cubin"].stat().st_size,
        compile_ms=data["compile_ms"],
        entries=tuple(_entry_facts(launch, data["resources"].get(symbol)) for launch, symbol in symbols.items()),
        instruction_mix=data["mix"],
        labels=tuple(data["labels"]),
        warnings=warnings_text(log),
    )
    return Build(entry.files["kernel.cubin"], facts, symbols, without_ptxas_info(log))


def _entry_facts(launch: str, found: Mapping[str, Any] | None) -> EntryFacts:
    resources = Resources(**found) if found is not None else Resources()
    return EntryFacts(
        entry=launch,
        registers=resources.registers,
        spill_bytes=resources.spill_bytes,
        shared_bytes=resources.shared_bytes,
        local_bytes=resources.local_bytes,
    )


def _failure(error: str, arch: str, toolchain: str) -> Build:
    return Build(None, Facts(ok=False, error=error, arch=arch, toolchain=toolchain), {}, error)
