"""The client's side of Triton workers; how jobs travel and what holds a worker is the CUDA compilers' machinery."""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ....store.errors import DeviceError
from ..cuda.pool import Outcome, WorkerPool, placed
from .toolchain import INSTALL, TritonToolchain, find_triton

PROGRAM_NAME = "kforecast_kernel.py"
"""What Triton is told the file is called: equal sources share a cache entry whatever their files are called."""

FILE_BYTES = 16 << 20
"""The most that a Triton file may print, or write into one file of its folder, while it is imported."""
_RECIPE_S = 60.0


class TritonPool(WorkerPool):
    """Up to `workers` processes that hold Triton (default: one a core). Threads may share it."""

    def __init__(self, toolchain: TritonToolchain | None = None, *, workers: int | None = None) -> None:
        self.toolchain = toolchain or find_triton()
        super().__init__(f"{__package__}.worker", [str(self.toolchain.package)], install=INSTALL, workers=workers)
        self._recipes: dict[int, list[str]] = {}

    def to_ptx(
        self,
        source: str,
        *,
        includes: Mapping[str, str],
        units: Sequence[Mapping[str, Any]],
        options: Mapping[str, int],
        arch: int,
        deadline_s: float,
    ) -> Outcome:
        """Import a file and compile these units of it; the outcome's files are `N.ptx` and `numbers`. includes: files
        beside it that it may import.

        Raises DeviceError where the machinery fails.
        """
        job: dict[str, Any] = {
            "kind": "triton",
            "includes": list(includes),
            "units": list(units),
            "options": dict(options),
            "arch": arch,
            "alone": True,
            "file_bytes": FILE_BYTES,
            "deadline_s": deadline_s,
        }
        files = {name: text.encode() for name, text in includes.items()}
        return self.do(job, placed(job, {**files, PROGRAM_NAME: source.encode()}))

    def assemble(self, texts: Sequence[str], *, arch: int, deadline_s: float) -> Outcome:
        """Assemble PTX texts into one cubin, as this Triton would; the outcome's file is `kernel.cubin`."""
        argv = self.ptxas(arch)
        names = [f"{number}.ptx" for number in range(len(texts))]
        files = {name: text.encode() for name, text in zip(names, texts, strict=True)}
        command = [*argv, *names, "-o", "kernel.cubin"]
        return self.run([command], files=files, outputs=["kernel.cubin"], deadline_s=deadline_s)

    def ptxas(self, arch: int) -> list[str]:
        """Triton's own command line for ptxas, without files."""
        if arch not in self._recipes:
            job: dict[str, Any] = {"kind": "recipe", "arch": arch, "deadline_s": _RECIPE_S}
            outcome = self.do(job, placed(job, {}))
            if not outcome.ok:
                raise DeviceError(
                    "this Triton does not say how it assembles PTX",
                    value=f"{self.toolchain.identity}: {(outcome.failure or outcome.log).strip()[-300:]}",
                    next_step=f"Use another version. {INSTALL}.",
                )
            self._recipes[arch] = [str(word) for word in json.loads(outcome.files["recipe"])["argv"]]
        return self._recipes[arch]


_shared: dict[int, TritonPool] = {}
_shared_lock = threading.Lock()


def shared_triton_pool() -> TritonPool:
    """This process's own pool, made on first use and closed at exit."""
    with _shared_lock:
        if os.getpid() not in _shared:
            pool = TritonPool()
            atexit.register(pool.close)
            _shared[os.getpid()] = pool
        return _shared[os.getpid()]
