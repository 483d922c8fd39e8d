"""A fence around programs that read untrusted text, compilers above all: system files, one folder, no network.

Landlock and seccomp through a small launcher of ours, bubblewrap where the kernel has no Landlock, else seccomp alone;
the words of a Fence say which. A process that forks children and starts no program fences itself: `bench.landlock`.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..store.errors import DeviceError
from .landlock import landlock_version

SYSTEM_READABLE = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm"),
    *("/sys/devices/system", "/sys/kernel/mm/transparent_hugepage", "/dev/random", "/dev/urandom"),
)
"""What any program may need to read: libraries, headers, facts about the processor. Nothing of a user."""


@dataclass(frozen=True)
class Fence:
    """What goes before a command line, and in words what holds the command: `Landlock 7, seccomp`, `bubblewrap`."""

    words: str
    prefix: tuple[str, ...]


def existing(places: Sequence[str | Path]) -> list[str]:
    """The places that are there, each once, in order; without those that a colon-separated list cannot hold."""
    return list(dict.fromkeys(str(place) for place in places if ":" not in str(place) and Path(place).exists()))


def program_places(programs: Sequence[str]) -> list[str]:
    """Where programs and Python packages keep what they read: a program's own prefix, and Python's."""
    prefixes = [Path(program).resolve().parent.parent for program in programs]
    return [str(prefix) for prefix in (*prefixes, Path(sys.prefix), Path(sys.base_prefix)) if prefix != Path("/")]


def find_fence(folder: Path, programs: Sequence[str], launcher: Callable[[], Path]) -> Fence | None:
    """The fence for a command that may write below `folder` only; None where this machine has none.

    programs: paths of what is run, whose installations must stay readable. launcher: gives the path of the compiled
    `confined.c`. Bubblewrap would hold a program as well as Landlock and costs ten times as much (measured: 35 ms a
    command against 4), so it stands in where the kernel has no Landlock.
    """
    readable = existing([*SYSTEM_READABLE, *program_places(programs)])
    version = landlock_version()
    bubblewrap = None if version else _bubblewrap()
    if bubblewrap is not None:
        shown = [place for place in readable if not place.startswith(("/proc", "/dev", "/sys"))]
        binds = [part for place in shown for part in ("--ro-bind", place, place)]
        arguments = [*binds, "--proc", "/proc", "--dev", "/dev", "--bind", str(folder), str(folder)]
        return Fence("bubblewrap", (bubblewrap, *_UNSHARED, *arguments, "--chdir", str(folder), "--"))
    try:
        program = str(launcher())
    except DeviceError:
        return None  # no Linux headers: the compiler runs as it did before there were fences
    words = f"Landlock {version}, seccomp" if version else "seccomp"
    return Fence(words, (program, ":".join(readable), str(folder)))


_UNSHARED = ("--unshare-all", "--die-with-parent")


@functools.cache
def _bubblewrap() -> str | None:
    """The path of a bubblewrap that may make its namespaces here: inside containers it often may not."""
    path = shutil.which("bwrap")
    if path is None:
        return None
    command = [path, *_UNSHARED, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
    try:
        tried = subprocess.run(command, capture_output=True, timeout=10, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return path if tried.returncode == 0 else None
