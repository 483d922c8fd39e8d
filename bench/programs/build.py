"""Compiling a program: nvcc, host code and device code, behind the compilers' fence."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...store.errors import DeviceError
from ...store.paths import cache_dir
from ..languages.cuda import nvcc
from ..languages.cuda.cache import BuildCache
from ..languages.cuda.messages import in_users_name
from ..languages.cuda.options import check_arch
from ..languages.cuda.pool import CompilePool, shared_pool

_NAME = "program.cu"
DEADLINE_S = 120.0


@dataclass(frozen=True)
class BuiltProgram:
    """path: the executable in the cache; None where it does not compile, and `error` says why. log: the compiler's."""

    path: Path | None
    error: str | None
    log: str
    seconds: float


def build_program(
    source: str,
    includes: Mapping[str, str],
    *,
    name: str,
    arch: str,
    options: Sequence[str] = (),
    pool: CompilePool | None = None,
    deadline_s: float = DEADLINE_S,
) -> BuiltProgram:
    """Compile a CUDA program for an architecture (`sm_90`). includes: files beside it, by relative path.

    Raises DeviceError where nvcc or the host compiler is missing.
    """
    check_arch(arch)
    pool = pool or shared_pool()
    if not nvcc.usable(pool):
        raise DeviceError(
            "a program needs nvcc and g++ to compile",
            value=name,
            next_step="Install the CUDA toolkit, or measure the kernel alone: give it a header.",
        )
    compiler = pool.toolchain.nvcc
    assert compiler is not None, "usable says it is there"
    cache = BuildCache(cache_dir() / "programs")
    stamp = f"{compiler} {compiler.stat().st_mtime_ns} {pool.toolchain.identity}"
    parts = [stamp, arch, *options, source, *(part for pair in sorted(includes.items()) for part in pair)]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    hit = cache.get(key)
    if hit is None:
        command = [str(compiler), f"-arch={arch}", "-O3", "-lineinfo", "-I.", *options, _NAME, "-o", "program"]
        files = {_NAME: source.encode(), **{path: text.encode() for path, text in includes.items()}}
        outcome = pool.run([command], files=files, outputs=("program",), deadline_s=deadline_s)
        log = in_users_name(outcome.log.replace(_NAME, name), name)
        if not outcome.ok:
            return BuiltProgram(None, outcome.failure or _first_error(log), log, outcome.seconds)
        data = {"log": log, "seconds": outcome.seconds}
        hit = cache.put(key, data, {"program": outcome.files["program"]})
    path = hit.files["program"]
    path.chmod(0o755)
    return BuiltProgram(path, None, str(hit.data["log"]), float(hit.data["seconds"]))


def _first_error(log: str) -> str:
    lines = [line for line in log.splitlines() if "error" in line.lower()]
    return (lines or log.strip().splitlines() or ["the compiler failed without a word"])[0]
