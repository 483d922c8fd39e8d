"""The `cpu` device: C kernels in candidate processes, timed by the parent's clock."""

from __future__ import annotations

import os
import secrets
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ....store.errors import InputError, UnsupportedError
from ....store.models import Case, Kernel, Mismatch, Task
from ....store.models import Lane as LaneName
from ...correctness.gate import Expectation, expect
from ...faults import KernelFault
from ...header.expression import evaluate
from ...header.plan import plan_launches
from ...header.signature import Signature
from ...lane import Inspection, Program, Progress, Tool
from ...languages.build import Build, check_toolchain
from ...languages.c import COMPILE_DEADLINE_S, compile_c
from ...room import check_room
from ...tasks.inputs import make_inputs
from ...timing.samples import SIDE_OF_LETTER, Block, BlockOrder, Sample, Side
from . import machine
from .deck import Deck, exchanged
from .defences import Defences
from .memory import Arena, Array
from .memory import Block as MemoryBlock
from .process import CandidateProcess
from .process import Program as CandidateProgram

INPUT_SETS = 3
"""Distinct contents of the timed calls, all at the same addresses: see `Deck`."""

CONSTANTS = {"WARP": 1, "SM_COUNT": os.cpu_count() or 1, "SMEM_MAX": 0}
_NULL_CALLS = 15


@dataclass
class _InputSet:
    """One content of a timed case and what each side made of it, once checked: later outputs compare bit by bit
    first.
    """

    inputs: dict[str, Array]
    expectation: Expectation | None = None
    verified: dict[Side, dict[str, Array]] = field(default_factory=dict)


@dataclass
class _TimedCase:
    case: Case
    arena: Arena
    sets: list[_InputSet]
    estimate_ns: dict[Side, int] = field(default_factory=dict)
    decks: dict[Side, Deck] = field(default_factory=dict)


class CpuLane:
    """C and C++ kernels on the machine's processors. `cache` holds compiled kernels."""

    kind = "cpu"
    lane: LaneName = "host-code"
    launch_mode = "process"

    def __init__(
        self, cache: Path, *, defences: Defences | None = None, compile_deadline_s: float = COMPILE_DEADLINE_S
    ) -> None:
        self.device = "cpu"
        self.device_id = machine.device_id()
        self._cache = cache
        self._defences = defences or Defences()
        self._compile_deadline_s = compile_deadline_s

    def warm_up(self) -> None:
        """Nothing to start: the candidate's process is a moment's work."""

    def get_ready(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Nothing to wait for."""

    def compile(self, kernel: Kernel, signatures: Sequence[Signature], task: Task | None = None) -> Build:
        """Compile with the compiler that is part of the kernel's id. Raises DeviceError where there is no such one."""
        build = compile_c(
            kernel,
            signatures,
            cache=self._cache,
            defines=machine.library_defines(kernel),
            deadline_s=self._compile_deadline_s,
            fenced=self._defences.compiler,
        )
        check_toolchain(kernel, build.facts.toolchain)
        return build

    def floor_us(self, task: Task, case: Case) -> float | None:
        """None: the cpu has no measured profile yet, and a datasheet's bandwidth is no floor."""
        return None

    def session(self, task: Task, *, call_deadline_s: float, cancelled: Callable[[], bool]) -> CpuSession:
        """A session on this task. Raises InputError where the task has no timed case for the cpu, UnsupportedError
        where its cases do not fit into memory.
        """
        if not task.timed_on("cpu"):
            raise InputError(
                "the task has no timed case for the cpu",
                value=task.name,
                next_step="Add `timed = [...]` (every device) or `timed.cpu = [...]` to the task.",
            )
        check_room(task, together=task.timed_on("cpu"), alone=task.checked, sets=INPUT_SETS, sides=1)
        return CpuSession(task, call_deadline_s, self._cache, self._defences, cancelled)

    def close(self) -> None:
        """Nothing to end: every process of this lane lives within a session's block."""


class CpuSession:
    """One measurement on the cpu. See `bench.lane.Session`."""

    def __init__(
        self, task: Task, call_deadline_s: float, cache: Path, defences: Defences, cancelled: Callable[[], bool]
    ) -> None:
        self._cancelled = cancelled
        self._task = task
        self._deadline_s = call_deadline_s
        self._cache = cache
        self._defences = defences
        self._programs: dict[Side, Program] = {}
        self._timed: list[_TimedCase] = []
        self._random = np.random.default_rng(secrets.randbits(128))
        self._sweep = machine.cache_sweep()
        self._last: dict[str, Array] = {}
        self._null_ns = 0.0
        self.clock_spread_ns = 0.0
        self._cost_s: list[float] = []
        self.isolation = "process"
        self.notes: tuple[str, ...] = ()
        self.launch_mode = CpuLane.launch_mode
        self._started = machine.snapshot()

    def add(self, side: Side, program: Program) -> None:
        if len({entry.name for entry in program.kernel.scratch} & {t.name for t in self._task.tensors}):
            raise KernelFault("launch_error", "a scratch buffer has the name of a tensor")
        self._programs[side] = program

    # -- correctness ---------------------------------------------------------------------------------------------

    def check(self, side: Side, cases: Sequence[Case], progress: Progress) -> Mismatch | None:
        for number, case in enumerate(cases, 1):
            progress(f"checking case {number} of {len(cases)}")
            with self._arena(case, (side,)) as arena, self._start(side, case, arena) as process:
                # Twice on the same addresses with other contents: the second call finds a kernel that kept its answer.
                for _ in range(2):
                    inputs = make_inputs(self._task, case, secrets.randbits(63))
                    outputs = self._run(side, process, arena, inputs, self._deadline_s)
                    mismatch = expect(self._task, case, inputs).check(outputs)
                    if mismatch is not None:
                        return mismatch
        return None

    def prepare(self, side: Side, progress: Progress) -> Mismatch | None:
        if not self._timed:
            for case in self._task.timed_on("cpu"):
                contents = [make_inputs(self._task, case, secrets.randbits(63)) for _ in range(INPUT_SETS)]
                arena = self._arena(case, tuple(self._programs))
                self._timed.append(_TimedCase(case, arena, [_InputSet(content) for content in contents]))
        for number, timed in enumerate(self._timed, 1):
            progress(f"checking timed case {number} of {len(self._timed)}")
            with self._start(side, timed.case, timed.arena) as process:
                elapsed: list[int] = []
                for content in timed.sets:
                    outputs = self._run(side, process, timed.arena, content.inputs, self._deadline_s, elapsed)
                    mismatch = self._verify(side, timed, content, outputs)
                    if mismatch is not None:
                        return mismatch
                timed.estimate_ns[side] = min(elapsed)
        if not self._null_ns:
            self._calibrate(side)
        return None

    def _verify(self, side: Side, timed: _TimedCase, content: _InputSet, outputs: dict[str, Array]) -> Mismatch | None:
        known = content.verified.get(side)
        if known is not None and all(known[n].tobytes() == outputs[n].tobytes() for n in known):
            return None
        if content.expectation is None:
            content.expectation = expect(self._task, timed.case, content.inputs)
        mismatch = content.expectation.check(outputs)
        if mismatch is None:
            content.verified[side] = {name: array.copy() for name, array in outputs.items()}
        return mismatch

    # -- timing --------------------------------------------------------------------------------------------------

    def _calibrate(self, side: Side) -> None:
        """The null round trip, after the same sweep as a real call: its least, and its spread.

        The least is what every call certainly pays; a median would take away more than some call paid on a busy
        machine, and leave times that are too short.
        """
        timed = self._timed[0]
        # A process of ours alone: what a kernel could delay here would be taken off its own times.
        program = CandidateProgram(None, (), {})
        trusted = self._defences.trusted_null
        process = self._process(program, timed.arena) if trusted else self._start(side, timed.case, timed.arena)
        with process:
            trips = []
            for _ in range(_NULL_CALLS):
                self._sweep()
                trips.append(process.nothing())
        self._null_ns = min(trips)
        quartiles = statistics.quantiles(trips, n=4)
        self.clock_spread_ns = (quartiles[2] - quartiles[0]) / 1.349  # the normal law's sigma

    def sample_seconds(self) -> float:
        return statistics.fmean(self._cost_s) if self._cost_s else 0.05

    def blocks(self, orders: Sequence[BlockOrder], run: int, group: int, repetitions: int) -> tuple[Block, ...]:
        """One block: here every block has processes of its own, so taking several at once would save nothing."""
        order = orders[0]
        samples: list[Sample] = []
        for index, timed in enumerate(self._timed):
            processes: dict[Side, CandidateProcess] = {}
            try:
                for side in dict.fromkeys(SIDE_OF_LETTER[letter] for letter in order):
                    processes[side] = self._start(side, timed.case, timed.arena)
                    timed.decks[side] = Deck(INPUT_SETS, self._random, honest=self._defences.deck)
                    self._sample(side, timed, processes[side])  # first call of a process: page-in, thread pools
                for place, letter in enumerate(order):
                    side = SIDE_OF_LETTER[letter]
                    for _ in range(repetitions):
                        cold, warm = self._sample(side, timed, processes[side])
                        samples.append(Sample(side, index, cold, warm, place))
            finally:
                for process in processes.values():
                    process.close()
        return (Block(order, tuple(samples), group),)

    def _sample(self, side: Side, timed: _TimedCase, process: CandidateProcess) -> tuple[float, float]:
        """Nanoseconds of one cold call and of one warm call right after it; both outputs are checked."""
        begin = machine.seconds()
        number, change = timed.decks[side].draw()
        content = timed.sets[number]
        if change:
            content = _InputSet(exchanged(content.inputs, self._random))
        deadline_s = min(max(10e-9 * timed.estimate_ns.get(side, 0), 2.0), self._deadline_s)
        times = []
        for cold in (True, False):
            elapsed: list[int] = []
            outputs = self._run(side, process, timed.arena, content.inputs if cold else None, deadline_s, elapsed, cold)
            mismatch = self._verify(side, timed, content, outputs)
            if mismatch is not None:
                raise KernelFault("incorrect", f"a timed call was wrong: {mismatch.explanation}", mismatch=mismatch)
            times.append(max(elapsed[0] - self._null_ns, 1.0))
        self._cost_s.append(machine.seconds() - begin)
        return times[0], times[1]

    # -- one call ------------------------------------------------------------------------------------------------

    def _run(
        self,
        side: Side,
        process: CandidateProcess,
        arena: Arena,
        inputs: dict[str, Array] | None,
        deadline_s: float,
        elapsed: list[int] | None = None,
        sweep: bool = False,
    ) -> dict[str, Array]:
        """Load inputs (None: leave them as they are), poison, call, look for overruns. Returns views of the outputs."""
        if inputs is None:
            inout = {t.name for t in self._task.tensors if t.role == "inout"}
            inputs = {} if not inout else {name: v for name, v in self._last.items() if name in inout}
        else:
            self._last = inputs
        arena.load(inputs)
        if self._defences.poison:
            arena.poison(self._poisoned(arena))
        if sweep:
            self._sweep()
        nanoseconds = process.call(deadline_s)
        if elapsed is not None:
            elapsed.append(nanoseconds)
        overrun = arena.overrun() if self._defences.red_zones else None
        if overrun is not None:
            raise KernelFault("incorrect", overrun, process.output())
        process.check_settled()
        return {t.name: arena.arrays[t.name] for t in self._task.tensors if t.role != "in"}

    def _poisoned(self, arena: Arena) -> list[str]:
        """Outputs and the scratch of both sides: what the other side left there must tell this one nothing."""
        outputs = [tensor.name for tensor in self._task.tensors if tensor.role == "out"]
        return outputs + [name for name in arena.regions if "/" in name]

    def _arena(self, case: Case, sides: Sequence[Side]) -> Arena:
        def shape(texts: Sequence[str], values: dict[str, int], what: str) -> tuple[int, ...]:
            return tuple(evaluate(text, values, what=what, minimum=1) for text in texts)

        blocks = [
            MemoryBlock(t.name, t.dtype, shape(t.shape, case.sizes, f"shape of {t.name}"), t.role != "in", t.zero)
            for t in self._task.tensors
        ]
        for side in sides:
            kernel = self._programs[side].kernel
            values = {**CONSTANTS, **case.sizes, **kernel.tunables}
            blocks += [
                MemoryBlock(f"{side}/{s.name}", s.dtype, shape(s.shape, values, f"shape of {s.name}"), True, s.zero)
                for s in kernel.scratch
            ]
        return Arena(blocks, sealed=self._defences.seal)

    def _start(self, side: Side, case: Case, arena: Arena) -> CandidateProcess:
        program = self._programs[side]
        try:
            launches = plan_launches(program.kernel, self._task, case, program.signatures, CONSTANTS)
        except InputError as error:
            raise KernelFault("launch_error", str(error)) from error
        except UnsupportedError as error:
            raise KernelFault("unsupported", str(error)) from error
        regions = {tensor.name: tensor.name for tensor in self._task.tensors}
        regions |= {entry.name: f"{side}/{entry.name}" for entry in program.kernel.scratch}
        candidate = CandidateProgram(program.build, launches, regions)
        return self._process(candidate, arena)

    def _process(self, program: CandidateProgram, arena: Arena) -> CandidateProcess:
        process = CandidateProcess(
            program, arena, cache=self._cache, defences=self._defences, cancelled=self._cancelled
        )
        self.isolation = process.isolation
        return process

    def inspect(self, tool: Tool, progress: Progress) -> Inspection:
        if tool == "profile":
            return Inspection(notes=("no profile: hardware counters are read on CUDA devices only",))
        return Inspection()

    def environment(self) -> dict[str, Any]:
        toolchains = {side: program.build.facts.toolchain for side, program in self._programs.items()}
        return {
            **machine.describe(),
            "toolchains": toolchains,
            "null_call_us": self._null_ns / 1e3,
            "null_call_spread_us": self.clock_spread_ns / 1e3,
            "before": self._started,
            "after": machine.snapshot(),
        }

    def __enter__(self) -> CpuSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for timed in self._timed:
            timed.arena.close()
        self._timed = []
