"""What this machine is and has, read without changing anything and without loading a CUDA library."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass

_CLONE_NEWUSER = 0x10000000
_LANDLOCK_CREATE_RULESET = 444
"""The number of the system call, the same on every Linux architecture."""
_LANDLOCK_VERSION_FLAG = 1
_PR_GET_SECCOMP = 21


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU as nvidia-smi lists it."""

    index: int
    name: str
    uuid: str
    driver: str
    memory_mib: int | None
    compute_capability: str


def program_version(name: str) -> str | None:
    """The line of `name --version` that holds a version, or None where the program is missing or does not answer."""
    path = shutil.which(name)
    if path is None:
        return None
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = [line.strip() for line in answer.stdout.splitlines() if line.strip()]
    with_number = [line for line in lines if any(c.isdigit() for c in line) and "opyright" not in line]
    preferred = [line for line in with_number if "release" in line] or with_number
    return preferred[0] if answer.returncode == 0 and preferred else None


def gpus() -> list[Gpu]:
    """The NVIDIA GPUs of this machine; empty where there is none or the driver does not answer."""
    path = shutil.which("nvidia-smi")
    if path is None:
        return []
    fields = "index,name,uuid,driver_version,memory.total,compute_cap"
    try:
        answer = subprocess.run(
            [path, f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if answer.returncode != 0:
        return []
    rows = ([part.strip() for part in line.split(",")] for line in answer.stdout.splitlines())
    return [
        Gpu(int(row[0]), row[1], row[2], row[3], int(row[4]) if row[4].isdigit() else None, row[5])
        for row in rows
        if len(row) == 6 and row[0].isdigit()
    ]


def usable_cores() -> int:
    """Cores this process may run on: a container or `taskset` can make them fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_busy(load: float, cores: int) -> bool:
    """Whether so many runnable processes leave less than half a core for one more: whatever is timed then shares."""
    return load > cores - 0.5


def landlock_abi() -> int | None:
    """The Landlock version of this kernel (1 and up), or None where it is off or unknown."""
    if platform.system() != "Linux":
        return None
    flag = ctypes.c_uint32(_LANDLOCK_VERSION_FLAG)
    version = int(_libc().syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), flag))
    return version if version > 0 else None


def seccomp() -> bool:
    """Whether this kernel has seccomp filters."""
    return platform.system() == "Linux" and _libc().prctl(_PR_GET_SECCOMP, 0, 0, 0, 0) >= 0


def user_namespace_error() -> str | None:
    """None where an unprivileged process may make a user namespace, else the kernel's reason. Tried in a child."""
    if platform.system() != "Linux":
        return "not Linux"
    attempt = (
        "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); "
        f"os._exit(libc.unshare({_CLONE_NEWUSER}) and ctypes.get_errno())"
    )
    code = subprocess.run([sys.executable, "-ISc", attempt], check=False, timeout=20).returncode
    return None if code == 0 else os.strerror(code) if code > 0 else "the attempt was killed"


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
