"""This machine as a measuring device: its identity, its caches, its state before and after."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ....store.models import Kernel

_DEFAULT_CACHE_BYTES = 32 << 20
_VECTOR_SETS = (
    ("sse4_2", "SSE4.2"), ("avx", "AVX"), ("avx2", "AVX2"), ("fma", "FMA"), ("avx512f", "AVX-512F"),
    ("avx512bw", "AVX-512BW"), ("avx512vl", "AVX-512VL"), ("avx512_vnni", "AVX-512-VNNI"),
    ("avx512_bf16", "AVX-512-BF16"), ("avx512_fp16", "AVX-512-FP16"), ("amx_tile", "AMX"), ("asimd", "NEON"),
    ("sve", "SVE"), ("sve2", "SVE2"),
)  # fmt: skip
"""Flags of /proc/cpuinfo, of x86 and of Arm, and what they are called."""
_WITHIN_AVX2 = ("SSE4.2", "AVX")


def seconds() -> float:
    """Monotonic seconds."""
    return time.perf_counter()


@functools.cache
def model_name() -> str:
    """The processor's name as the kernel reports it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


@functools.cache
def device_id() -> str:
    """`cpu-` + a hash of processor, core count and host: measurements of different machines never mix."""
    text = f"{model_name()}\0{os.cpu_count()}\0{platform.node()}"
    return f"cpu-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@functools.cache
def vector_sets() -> tuple[str, ...]:
    """The instruction sets for vectors that this processor has, as people name them; empty where nothing says so."""
    names = ("flags", "Features")
    lines = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith(names)]
    flags = set(lines[0].split(":", 1)[1].split()) if lines else set()
    found = [name for flag, name in _VECTOR_SETS if flag in flags]
    return tuple(name for name in found if "AVX2" not in found or name not in _WITHIN_AVX2)


@functools.cache
def caches() -> tuple[tuple[str, int], ...]:
    """The caches that hold data, as one core sees them: (`L1d`, bytes), (`L2`, …), as the kernel reports them."""
    found = {}
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        kind, level = ((folder / name).read_text().strip() for name in ("type", "level"))
        if kind != "Instruction":
            text = (folder / "size").read_text().strip()
            unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1], 1)
            found[f"L{level}{'d' if kind == 'Data' else ''}"] = int(text.rstrip("KMG")) * unit
    return tuple(sorted(found.items()))


@functools.cache
def cache_bytes() -> int:
    """Size of the largest cache in bytes, as the kernel reports it; 32 MiB where it does not."""
    return max((size for _, size in caches()), default=_DEFAULT_CACHE_BYTES)


def cache_sweep() -> Callable[[], None]:
    """A function that evicts what the caches hold by reading twice their size, at most 256 MiB.

    It reads: a fill of this size would go past the caches with non-temporal stores and evict nothing.
    """
    junk = np.ones(min(2 * cache_bytes(), 256 << 20) // 8, dtype=np.int64)

    def sweep() -> None:
        junk.max()

    return sweep


@functools.cache
def describe() -> dict[str, Any]:
    """What does not change while the machine runs."""
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return {
        "cpu": model_name(),
        "cores": os.cpu_count(),
        "cache_bytes": cache_bytes(),
        "governor": governor.read_text().strip() if governor.exists() else None,
        "kernel": platform.release(),
    }


def snapshot() -> dict[str, Any]:
    """What changes: load averages, and the processor time the hypervisor took away so far, in ticks."""
    steal = int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8])
    return {"load_1m": os.getloadavg()[0], "steal_ticks": steal}


def openblas() -> Path | None:
    """The OpenBLAS that numpy's wheel bundles, None where numpy was built against another library."""
    folder = Path(np.__file__).resolve().parent.parent / "numpy.libs"
    return next(iter(sorted(folder.glob("libscipy_openblas64_*.so*"))), None)


def library_defines(kernel: Kernel) -> list[str]:
    """The `-D` text by which a library baseline finds OpenBLAS; empty for kernels that do not ask for it."""
    library = openblas() if "KFORECAST_OPENBLAS" in kernel.source else None
    return [f'KFORECAST_OPENBLAS="{library}"'] if library else []
