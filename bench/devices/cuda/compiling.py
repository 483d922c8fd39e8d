"""Compile a kernel for one GPU, by its language: what both of the device's lanes run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from threading import Lock

from ....store.errors import DeviceError
from ....store.models import Kernel, Launch, Task
from ...header.entry import instantiate
from ...header.signature import Signature
from ...languages.build import Build, check_toolchain
from ...languages.cuda.compile import compile_cuda
from ...languages.cuda.pool import shared_pool
from ...languages.triton.compile import compile_triton
from ...languages.triton.pool import shared_triton_pool
from .device import DeviceFacts

COMPILE_S = 60.0


def constants_of(facts: DeviceFacts) -> dict[str, int]:
    """Names that geometry may use: a warp's width, the multiprocessors, the bytes of shared memory a block may have."""
    return {"WARP": 32, "SM_COUNT": facts.sm_count, "SMEM_MAX": facts.smem_max}


def compile_for(
    facts: DeviceFacts,
    kernel: Kernel,
    signatures: Sequence[Signature],
    task: Task | None = None,
    *,
    deadline_s: float = COMPILE_S,
) -> Build:
    """Compile with NVRTC or Triton for a GPU's architecture, in the sandboxed pool. Needs no device. task: see
    `bench.lane.Lane.compile`. Raises DeviceError where the toolchain in the kernel's id is not the one here.
    """
    constants = constants_of(facts)
    if kernel.language == "triton":
        assert task is not None, "Triton kernels are compiled for a task's cases"
        check_toolchain(kernel, shared_triton_pool().toolchain.identity)
        return compile_triton(kernel, task, signatures, arch=facts.arch, constants=constants)
    check_toolchain(kernel, shared_pool().toolchain.identity)
    names = {}
    for launch in kernel.launches:
        names[launch.entry] = instantiate(launch.entry, signatures, {**constants, **kernel.tunables}).expression
    return compile_cuda(kernel, names, arch=facts.arch, deadline_s=deadline_s)


class OwnKernels:
    """Cubins of kernels of ours, files of this folder, for one architecture. Threads may share it."""

    def __init__(self, arch: str) -> None:
        self._arch = arch
        self._made: dict[str, Path] = {}
        self._making: defaultdict[str, Lock] = defaultdict(Lock)

    def path(self, name: str, entries: Sequence[str]) -> Path:
        """Compiled through the same pool and cache as others, by whoever asks first; the rest wait. Raises
        DeviceError.
        """
        with self._making[name]:
            if name not in self._made:
                self._made[name] = self._compile(name, entries)
            return self._made[name]

    def _compile(self, name: str, entries: Sequence[str]) -> Path:
        source = resources.files(__package__).joinpath(name).read_text()
        launches = tuple(Launch(entry=entry, args=()) for entry in entries)
        kernel = Kernel.make(language="cuda", name=name, source=source, launches=launches, task_id="")
        build = compile_cuda(kernel, arch=self._arch)
        if build.binary is None:
            raise DeviceError(
                "kernels of our own do not compile",
                value=f"{name}: {build.facts.error}",
                next_step="Run `kforecast doctor`.",
            )
        return build.binary
