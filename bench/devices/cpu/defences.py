"""What protects a measurement on the cpu, part by part. All is on; tests turn a part off to see an attack pass."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...fence import SYSTEM_READABLE, existing


@dataclass(frozen=True)
class Defences:
    """Each part by the name that docs/trust.md uses."""

    namespaces: bool = True
    landlock: bool = True
    seccomp: bool = True
    limits: bool = True
    seal: bool = True
    """Inputs lie in a memory file that nobody can map or write anew."""
    freeze: bool = True
    """The candidate is stopped except while a call runs."""
    glance: bool = True
    """Elements read at the moment of the answer must not change afterwards."""
    poison: bool = True
    red_zones: bool = True
    deck: bool = True
    """Contents do not repeat within a process until all were used, and later repetitions are changed now and then."""
    trusted_null: bool = True
    """Empty calls are timed in a process that has loaded no kernel."""
    compiler: bool = True

    @property
    def bits(self) -> int:
        """The sum that `candidate.c` reads."""
        parts = (self.namespaces, self.landlock, self.seccomp, self.limits)
        return sum(1 << place for place, wanted in enumerate(parts) if wanted)


@functools.cache
def readable_paths() -> str:
    """What a candidate may read, separated by colons: system libraries, processor facts, numpy's libraries.

    Where Python or conda have a prefix of their own, a compiler's run-time libraries may be there and nowhere else.
    """
    prefixes = (sys.base_prefix, os.environ.get("CONDA_PREFIX", sys.base_prefix))
    wheel = Path(np.__file__).resolve().parent.parent / "numpy.libs"
    return ":".join(existing([*SYSTEM_READABLE, wheel, *(Path(prefix) / "lib" for prefix in prefixes)]))
