"""PyTorch programs on `cpu` and `cuda:N`: the host-code lane."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ...store.errors import DeviceError, InputError, UnsupportedError
from ...store.models import Case, Kernel, Task
from ...store.models import Lane as LaneName
from ..devices.cpu import machine
from ..devices.cuda import inspection
from ..devices.cuda.compiling import compile_for, constants_of
from ..devices.cuda.device import DeviceFacts, device_facts
from ..devices.cuda.monitor import Monitor
from ..faults import KernelFault
from ..header.signature import Signature
from ..lane import Inspection, Tool
from ..lane import Program as Compiled
from ..languages.build import Build, check_toolchain
from ..languages.torch import compile_torch, toolchain, torch_version
from .builds import Builds
from .defences import Defences
from .helpers import OracleProcess, Zygote, require_torch
from .memory import SharedMemory
from .process import CandidateProcess, Program, Setting
from .session import HostedSession

_MEMORY_SHARE = 0.8
PROBE_S = 30.0
_SCALAR = {"dtype": "float32", "shape": [1], "strides": [1]}
LOAD_S = 120.0
"""Deadline for loading a program: its imports, its extensions where they are built already, its weights."""


class HostedLane:
    """Python programs on one device. `cache` holds compiled extensions."""

    lane: LaneName = "host-code"

    def __init__(
        self,
        device: str,
        device_id: str,
        cache: Path,
        *,
        defences: Defences | None = None,
        load_deadline_s: float = LOAD_S,
    ) -> None:
        require_torch()
        self.device = device
        self.device_id = device_id
        self.kind = device.partition(":")[0]
        self.launch_mode = "process"
        self.defences = defences or Defences()
        self.load_deadline_s = load_deadline_s
        self.builds = Builds(cache, self.kind)
        self._reached: dict[Defences, Defences] = {}
        self._oracle: OracleProcess | None = None
        self._zygote: Zygote | None = None
        self.sweep = machine.cache_sweep()

    @property
    def oracle(self) -> OracleProcess:
        """The oracle, started anew where it ended."""
        if self._oracle is not None and not self._oracle.alive:
            self._oracle.close()
            self._oracle = None
        if self._oracle is None:
            self._oracle = OracleProcess(self.device)
        return self._oracle

    @property
    def zygote(self) -> Zygote:
        """The process that candidates are forked from, started anew where it ended."""
        if self._zygote is not None and not self._zygote.alive:
            self._zygote.close()
            self._zygote = None
        if self._zygote is None:
            self._zygote = Zygote()
        return self._zygote

    def get_ready(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Both processes there; on a GPU also known what a candidate's process can be held by."""
        self.oracle.ready(cancelled)
        self.reached(self.defences)

    def release(self) -> None:
        """Have the oracle let go of what a session needed; one that cannot any more is ended."""
        if self._oracle is not None and self._oracle.alive:
            with contextlib.suppress(DeviceError):  # it closed itself, which releases everything
                self._oracle.ask("release")

    def warm_up(self) -> None:
        """Start both, without waiting: importing torch takes seconds."""
        _ = self.oracle, self.zygote

    @cached_property
    def memory_limit(self) -> int:
        """Bytes that a candidate on the cpu may map."""
        return int(_MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))

    @property
    def flush_bytes(self) -> int:
        """What a candidate's process writes to push its inputs out of a GPU's L2 cache; 0 on the cpu."""
        if self.kind == "cpu":
            return 0
        return 2 * self._facts.l2_bytes

    def compile(self, kernel: Kernel, signatures: Sequence[Signature], task: Task | None = None) -> Build:
        """Check a Python program's syntax (extensions are built where it asks for them); on a GPU compile device code.

        Raises UnsupportedError for every other language.
        """
        if kernel.language == "torch":
            check_toolchain(kernel, toolchain())
            return compile_torch(kernel)
        if self.kind == "cpu" or kernel.language == "c":
            raise UnsupportedError(
                f"a {kernel.language} kernel does not run in the host-code lane of {self.device}",
                value=kernel.name,
                next_step="Compare PyTorch programs with PyTorch programs, or with CUDA and Triton kernels on a GPU.",
            )
        return compile_for(self._facts, kernel, signatures, task)

    @property
    def _facts(self) -> DeviceFacts:
        return device_facts(int(self.device.partition(":")[2] or 0))

    @property
    def constants(self) -> dict[str, int]:
        """Names that the geometry of device code may use; none on the cpu."""
        return {} if self.kind == "cpu" else constants_of(self._facts)

    def inspect(self, tool: Tool, program: Compiled, task: Task) -> Inspection:
        """Look inside device code, as the device's own lane does."""
        ordinal = int(self.device.partition(":")[2] or 0)
        if tool == "profile":
            return inspection.profile(program, task, self.constants, ordinal, self._facts.arch)
        return inspection.sanitize(program, task, self.constants, ordinal)

    def floor_us(self, task: Task, case: Case) -> float | None:
        """None: what a problem necessarily moves and computes is not known."""
        return None

    def session(self, task: Task, *, call_deadline_s: float, cancelled: Callable[[], bool]) -> HostedSession:
        """A session on this task. Raises InputError where the task has no timed case for this device."""
        if not task.timed_on(self.kind):
            raise InputError(
                f"the task has no timed case for {self.kind}",
                value=task.name,
                next_step=f"Add `timed = [...]` (every device) or `timed.{self.kind} = [...]` to the task.",
            )
        return HostedSession(self, task, call_deadline_s, cancelled)

    @cached_property
    def monitor(self) -> Monitor | None:
        """The GPU's state through NVML; None on the cpu."""
        return None if self.kind == "cpu" else Monitor(int(self.device.partition(":")[2] or 0))

    def reached(self, wanted: Defences) -> Defences:
        """What of the wanted defences a process that uses this device can have.

        A GPU's driver may not start behind Landlock or the filter of system calls: then what refuses it is left out,
        and a result's isolation says so.
        """
        if self.kind == "cpu":
            return wanted
        if wanted not in self._reached:
            self._reached[wanted] = self._probe(wanted)
        return self._reached[wanted]

    def _probe(self, wanted: Defences) -> Defences:
        memory = SharedMemory("inputs", 1), SharedMemory("mutable", 1)
        case = {"arguments": [], "destinations": [], "returns": [_SCALAR], "forms": [], "areas": [], "offsets": []}
        setting = Setting(self.device, [case], {}, 0, *memory, self.memory_limit)
        parts: tuple[dict[str, bool], ...] = ({}, {"landlock": False}, {"landlock": False, "seccomp": False})
        try:
            for part in parts:
                tried = replace(wanted, **part)
                try:
                    with CandidateProcess(
                        Program(None), setting, self.zygote, defences=tried, load_deadline_s=self.load_deadline_s
                    ) as process:
                        process.prepare(0, PROBE_S)
                        process.call(0, PROBE_S)
                    return tried
                except KernelFault as fault:
                    last = fault
            raise DeviceError(
                "a process of ours cannot use the GPU", value=last.reason, next_step="Run `kforecast doctor`."
            )
        finally:
            for one in memory:
                one.close()

    def describe(self) -> dict[str, Any]:
        """The part of the fingerprint that does not change while the lane is open."""
        gpu = self.monitor.describe() if self.monitor else {}
        return {**machine.describe(), **gpu, "torch": torch_version()}

    def close(self) -> None:
        """End both processes and wait for the reap."""
        for process in (self._oracle, self._zygote):
            if process is not None:
                process.close()
        self._oracle = self._zygote = None
