"""The C and C++ language: the system compiler, one shared object a kernel, trampolines with one uniform signature."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from pathlib import Path

from ...store.errors import DeviceError, InputError
from ...store.models import Dtype, EntryFacts, Facts, Kernel
from ...store.paths import writing_to_cache
from .. import devices
from ..disk import KERNEL_BYTES, check_disk
from ..fence import find_fence
from ..header.options import is_cpp
from ..header.signature import Signature
from ..processes import Limits, clean_environment, run_limited
from .build import Build

DEFAULT_OPTIONS = ("-O3", "-march=native")
_SCALARS: dict[Dtype, str] = {
    "f64": "double", "f32": "float", "f16": "uint16_t", "bf16": "uint16_t", "i64": "int64_t", "i32": "int32_t",
    "i16": "int16_t", "i8": "int8_t", "u64": "uint64_t", "u32": "uint32_t", "u16": "uint16_t", "u8": "uint8_t",
}  # fmt: skip
COMPILE_DEADLINE_S = 60.0


WRAPPERS = frozenset({"ccache", "sccache", "distcc", "icecc", "buildcache"})
"""Programs that stand before a compiler to save its work. They are passed over: compiled kernels are kept here already,
behind the fence such a program reaches neither its cache nor its servers, and another machine's `-march=native` is
another."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler found on this machine, what it calls itself, e.g. `gcc 12.2.0`, and the arguments it always gets.

    version: with those arguments, for they decide what is compiled: `gcc 12.2.0 -m32`.
    """

    path: str
    version: str
    arguments: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        """What a command line begins with."""
        return [self.path, *self.arguments]


@functools.cache
def find_compiler(cpp: bool = False, version: str = "") -> Compiler:
    """The compiler that $CC (or $CXX) names, else gcc, cc, clang; of all of them the first of `version`, where one is.

    The variable may hold arguments for the compiler, and wrappers before it (`ccache gcc`), which are passed over.
    Raises InputError where it names no compiler, DeviceError where there is none at all.
    """
    variable = "CXX" if cpp else "CC"
    named = os.environ.get(variable, "")
    first = _compiler(_words(named))
    if named and first is None:
        raise InputError(
            f"${variable} names no {'C++' if cpp else 'C'} compiler that runs here",
            value=named,
            next_step=f"Set {variable} to a compiler, as a shell would call it, or unset it.",
        )
    names = ("g++", "c++", "clang++") if cpp else ("gcc", "cc", "clang")
    for compiler in chain([first] if first else [], filter(None, (_compiler([name]) for name in names))):
        if version in ("", compiler.version):
            return compiler
        first = first or compiler
    if first is not None:
        return first
    raise DeviceError(
        f"no {'C++' if cpp else 'C'} compiler found",
        value=", ".join(names),
        next_step=f"Install gcc (`apt install gcc g++`, `dnf install gcc gcc-c++`) or point ${variable} at a compiler.",
    )


def _words(named: str) -> list[str]:
    """The compiler that a variable names and its arguments, as a shell takes them apart; nothing where it cannot."""
    try:
        words = [named] if shutil.which(named) else shlex.split(named)  # a path may hold a space
    except ValueError:
        return []
    while words and Path(words[0]).name in WRAPPERS:
        words = words[1:]
    return words


def _compiler(words: Sequence[str]) -> Compiler | None:
    path = _path(words[0]) if words else None
    if path is None:
        return None
    arguments = tuple(words[1:])
    with tempfile.TemporaryDirectory(prefix="kforecast-") as folder:
        outcome = run_limited([path, *arguments, "--version"], cwd=Path(folder), deadline_s=20.0)
    first = outcome.output.splitlines()[0] if outcome.output else ""
    number = re.search(r"\d+\.\d+(\.\d+)?", first)
    if outcome.returncode != 0 or number is None:
        return None
    kind = "clang" if "clang" in first else "gcc"
    return Compiler(path, shlex.join([kind, number.group(), *arguments]), arguments)


def _path(name: str) -> str | None:
    """Where a program is; not what a wrapper keeps under its name, early on the path."""
    path = shutil.which(name)
    if path is None or Path(path).resolve().name not in WRAPPERS:
        return path
    for folder in os.get_exec_path():
        found = shutil.which(Path(name).name, path=folder)
        if found is not None and Path(found).resolve().name not in WRAPPERS:
            return found
    return None


def toolchain(cpp: bool) -> str:
    """The toolchain string that enters a kernel's id, e.g. `gcc 12.2.0`."""
    return find_compiler(cpp).version


@functools.cache
def build_trusted(name: str, cache: Path) -> Path:
    """A program of ours, `name` among the cpu device's C files, built by the system compiler and kept in `cache`.

    Raises DeviceError where there is no compiler or it does not compile.
    """
    ours = resources.files(devices) / "cpu"
    texts = {text: (ours / text).read_text() for text in (name, "confine.h")}
    compiler = find_compiler()
    key = hashlib.sha256("\0".join([compiler.version, *texts.values()]).encode()).hexdigest()[:24]
    binary = cache / "c" / f"{Path(name).stem}-{key}"
    if binary.exists():
        return binary
    with writing_to_cache(binary.parent):
        binary.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kforecast-cc-") as text:
        folder = Path(text)
        for file, source in texts.items():
            (folder / file).write_text(source)
        # _FORTIFY_SOURCE and the like stay off: a candidate process exists to be crashed. The user's arguments may ask
        # for another ABI, which has to be that of the kernels; not for another C.
        command = [*compiler.command, "-std=gnu11", "-O2", "-w", "-o", "program", name, "-ldl"]
        outcome = run_limited(command, cwd=folder, deadline_s=60.0)
        if outcome.returncode != 0:
            check_disk(folder.parent, KERNEL_BYTES)
            raise DeviceError(
                f"a program of the cpu device does not compile ({name})",
                value=outcome.output.strip()[:500],
                next_step=f"Check the compiler {compiler.path} ({compiler.version}); Linux headers are needed.",
            )
        _keep((folder / "program").read_bytes(), binary)
    return binary


def _keep(content: bytes, target: Path) -> None:
    """Write-then-rename: whoever sees the file sees all of it. Raises DeviceError where the cache cannot be written."""
    with writing_to_cache(target.parent):
        temporary = target.with_name(f"{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
        try:
            temporary.write_bytes(content)
            temporary.chmod(0o755)
            temporary.rename(target)
        finally:
            temporary.unlink(missing_ok=True)


@functools.cache
def _processor() -> str:
    """What `-march=native` depends on: the instruction set of this machine."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("flags", "Features")):
            return hashlib.sha256(line.encode()).hexdigest()[:12]
    return platform.machine()


def _trampolines(kernel: Kernel, signatures: dict[str, Signature]) -> str:
    """C text that gives every launch the signature `void kforecast_launch_<i>(void **)`.

    Argument i points at the storage of parameter i: a pointer for tensors, a value of the parameter's C type for
    scalars.
    """
    lines = ["#include <stddef.h>", "#include <stdint.h>", "#include <stdbool.h>"]
    declared = set()
    for index, launch in enumerate(kernel.launches):
        parameters = signatures[launch.entry].parameters
        types = ["void *" if parameter.pointer else _SCALARS[parameter.dtype or "i32"] for parameter in parameters]
        if launch.entry not in declared:
            lines.append(f"extern void {launch.entry}({', '.join(types) or 'void'});")
            declared.add(launch.entry)
        arguments = ", ".join(f"*({kind}{'' if kind.endswith('*') else ' '}*)a[{i}]" for i, kind in enumerate(types))
        lines.append(f"void kforecast_launch_{index}(void **a) {{ (void)a; {launch.entry}({arguments}); }}")
    return "\n".join(lines) + "\n"


def compile_c(
    kernel: Kernel,
    signatures: Sequence[Signature],
    *,
    cache: Path,
    defines: Sequence[str] = (),
    deadline_s: float = COMPILE_DEADLINE_S,
    fenced: bool = True,
) -> Build:
    """Compile a C or C++ kernel to a shared object under `cache`; compile errors are a Build that is not ok.

    `defines` are extra `-D` texts (the library baseline's OpenBLAS path); `fenced`: the compiler, which reads text that
    nobody vouches for, sees system files and its own folder only. The compiler is that of the kernel's id where it is
    here. Raises DeviceError where there is none, or where the cache cannot be written.
    """
    compiler = find_compiler(is_cpp(kernel.options), kernel.toolchain)
    linker = find_compiler()
    trampolines = _trampolines(kernel, {signature.name: signature for signature in signatures})
    options = [*DEFAULT_OPTIONS, *kernel.options]
    macros = [f"-D{name}={value}" for name, value in sorted(kernel.tunables.items())] + [
        f"-D{text}" for text in defines
    ]
    key = hashlib.sha256(
        "\0".join([kernel.id, kernel.source, compiler.version, _processor(), trampolines, *options, *macros]).encode()
    ).hexdigest()[:32]
    binary = cache / "c" / f"{key}.so"
    symbols = {launch.entry: f"kforecast_launch_{i}" for i, launch in enumerate(kernel.launches)}
    log_file = binary.with_suffix(".log")
    if binary.exists() and log_file.exists():
        return _build(kernel, compiler, binary, symbols, log_file.read_text(), None)

    with writing_to_cache(binary.parent):
        binary.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kforecast-cc-") as text:
        folder = Path(text)
        # The user's own file name, so that messages carry it; the suffix decides the language for the compiler.
        suffix = ".cpp" if is_cpp(kernel.options) else ".c"
        source = folder / _file_name(kernel.name, suffix)
        source.write_text(kernel.source)
        for name, include in kernel.includes.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(include)
        (folder / "kforecast_trampolines.c").write_text(trampolines)
        environment = clean_environment(folder)
        steps = [
            [*compiler.command, "-c", "-fPIC", *options, *macros, "-I.", source.name, "-o", "kernel.o"],
            [*linker.command, "-c", "-fPIC", "-O2", "-w", "kforecast_trampolines.c", "-o", "trampolines.o"],
            [
                *(*compiler.command, "-shared", *[option for option in options if option != "-ffast-math"]),
                *("kernel.o", "trampolines.o", "-o", "kernel.so", "-Wl,-z,defs", "-Wl,-z,now"),
                *("-lm", "-ldl", "-lpthread"),
            ],
        ]
        log = ""
        fence = find_fence(folder, [compiler.path], lambda: build_trusted("confined.c", cache)) if fenced else None
        for step in steps:
            left = deadline_s - (time.monotonic() - started)
            outcome = run_limited(
                step,
                cwd=folder,
                deadline_s=max(left, 0.1),
                environment=environment,
                limits=Limits(cpu_s=120),
                fence=fence,
            )
            log += outcome.output
            if outcome.timed_out:
                return _failure(compiler, f"the compiler did not finish within {deadline_s:g} s", log)
            if outcome.returncode != 0:
                check_disk(folder.parent, KERNEL_BYTES)
                return _failure(compiler, _first_error(outcome.output, outcome.returncode), log)
        _keep(log.encode(), log_file)  # first: whoever sees the binary sees its log
        _keep((folder / "kernel.so").read_bytes(), binary)
    return _build(kernel, compiler, binary, symbols, log, (time.monotonic() - started) * 1e3)


def _file_name(name: str, suffix: str) -> str:
    """The user's own file name where a compiler takes it for what it is; a search's candidate may have none, or an odd
    one.
    """
    plain = re.fullmatch(r"\w[\w.+ -]*", name) is not None
    return name if plain and name.lower().endswith((".c", ".cc", ".cpp", ".cxx")) else f"kernel{suffix}"


def _first_error(output: str, returncode: int) -> str:
    for line in output.splitlines():
        if "error:" in line or "undefined reference" in line:
            return line.strip()
    return output.strip().splitlines()[-1] if output.strip() else f"the compiler ended with code {returncode}"


def _failure(compiler: Compiler, error: str, log: str) -> Build:
    facts = Facts(ok=False, error=error, toolchain=compiler.version, arch=platform.machine())
    return Build(binary=None, facts=facts, log=log)


def _build(
    kernel: Kernel, compiler: Compiler, binary: Path, symbols: dict[str, str], log: str, milliseconds: float | None
) -> Build:
    facts = Facts(
        ok=True,
        toolchain=compiler.version,
        arch=platform.machine(),
        code_bytes=binary.stat().st_size,
        compile_ms=milliseconds,
        entries=tuple(EntryFacts(entry=launch.entry) for launch in kernel.launches),
        warnings=log.strip(),
    )
    return Build(binary=binary, facts=facts, symbols=symbols, log=log)
