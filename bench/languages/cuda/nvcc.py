"""The second path: nvcc, for programs that include host headers NVRTC has not.

Two passes in one job. The PTX pass appends one device variable per entry, initialised with the kernel's address: the
PTX then says which symbol each name expression lowered to. The cubin pass appends host variables instead, which
instantiate the same templates and leave nothing in the cubin.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence

from .messages import PROGRAM_NAME
from .pool import CompilePool, Outcome

_VARIABLE = re.compile(r"kforecast_entry_(\d+) = ([\w$]+);")
_VERSION = re.compile(r"release [\d.]+, V([\d.]+)")


def usable(pool: CompilePool) -> bool:
    """Whether this machine has nvcc and the host compiler that it needs."""
    return pool.toolchain.nvcc is not None and shutil.which("g++") is not None


def compile_nvcc(
    pool: CompilePool,
    source: str,
    *,
    arch: str,
    flags: Sequence[str],
    headers: Mapping[str, str],
    entries: Sequence[str],
    deadline_s: float,
) -> Outcome:
    """As CompilePool.compile, by nvcc; flags hold the user's `-D`, `-I` and options."""
    # Names are quoted by `#line`, so that an entry that does not resolve is reported under its own name.
    tail = ['\n#line 1 "launch entries"']
    for index, entry in enumerate(entries):
        tail.append(f"KFORECAST_ENTRY const void* kforecast_entry_{index} = (const void*)({entry});")
    texts = {**headers, PROGRAM_NAME: source + "\n".join(tail) + "\n"}
    common = [str(pool.toolchain.nvcc), f"-arch={arch}", "-I.", *flags, PROGRAM_NAME]
    outcome = pool.run(
        [
            [*common, "-DKFORECAST_ENTRY=__device__", "-ptx", "-o", "kernel.ptx"],
            [*common, "-DKFORECAST_ENTRY=static", "-cubin", "-o", "kernel.cubin"],
        ],
        files={name: text.encode() for name, text in texts.items()},
        outputs=("kernel.ptx", "kernel.cubin"),
        deadline_s=deadline_s,
    )
    if not outcome.ok:
        return outcome
    ptx = outcome.files["kernel.ptx"]
    symbols = {entries[int(index)]: symbol for index, symbol in _VARIABLE.findall(ptx.decode(errors="replace"))}
    built = {"cubin": outcome.files["kernel.cubin"], "ptx": ptx}
    return Outcome(True, outcome.log, symbols, built, outcome.seconds)


def version_in(ptx: str) -> str:
    """The compiler build that the PTX's first comment names, e.g. `13.0.88`."""
    match = _VERSION.search(ptx)
    return match.group(1) if match else "unknown"
