"""What protects a measurement of a Python program, part by part. All is on; tests turn a part off to see an attack
pass.
"""

from __future__ import annotations

import functools
import os
import site
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from ..fence import SYSTEM_READABLE, existing


@dataclass(frozen=True)
class Defences:
    """Each part by the name that docs/trust.md uses."""

    namespaces: bool = True
    landlock: bool = True
    seccomp: bool = True
    limits: bool = True
    seal: bool = True
    """Inputs lie in memory that the candidate cannot map for writing."""
    freeze: bool = True
    """The candidate is stopped except while a call runs, and what it returned is read while it is stopped."""
    contents: bool = True
    """No two calls in a row have the same inputs, and later repetitions are new ones now and then."""
    seeds: bool = True
    """Fresh secret seeds; without it the seeds are 42, as a naive bench would have them."""
    types: bool = True
    """What is returned must be plain tensors of the reference's form, in memory that is no input's."""
    trusted_null: bool = True
    """Empty calls are timed in a process that has loaded no program."""

    def as_data(self) -> dict[str, bool]:
        """The switches as JSON data, for the process that forks candidates."""
        return asdict(self)


@functools.cache
def readable_paths() -> tuple[str, ...]:
    """What a candidate may read: system files, Python and its packages. Not the user's files, not this package."""
    packages = [*site.getsitepackages(), sys.prefix, sys.base_prefix]
    for name in ("torch", "numpy", "triton", "cupy"):
        spec = find_spec(name)
        if spec is not None and spec.origin is not None and spec.submodule_search_locations:
            packages.append(str(Path(spec.origin).resolve().parent.parent))
    conda = os.environ.get("CONDA_PREFIX")
    cuda = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    places = [*SYSTEM_READABLE, *packages, cuda, *([conda] if conda else [])]
    return tuple(place for place in existing(places) if place != "/")


def gpu_devices() -> tuple[str, ...]:
    """The driver's devices, which a process that uses a GPU must be able to control."""
    return tuple(sorted(str(path) for path in Path("/dev").glob("nvidia*")))


def gpu_folders() -> tuple[str, ...]:
    """Where a GPU's driver makes and writes files: facts about its own threads, memory that processes share."""
    return tuple(existing(["/proc", "/dev/shm"]))
