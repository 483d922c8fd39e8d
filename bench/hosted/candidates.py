"""The processes of a session's two programs: what they are started with, when they are built, and their end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...store.models import Kernel, Task
from ..devices.cpu import machine
from ..timing.samples import Side
from .arguments import arguments_of_launch
from .forms import KnownCase
from .process import CandidateProcess, Setting
from .process import Program as Hosted
from .taking import Areas

if TYPE_CHECKING:
    from .lane import HostedLane

_PRELOADED = {"gpumode": ("torch._inductor.config",)}
"""By format. GPU MODE's references ask for deterministic algorithms; torch imports its compiler's settings for that."""


class Candidates:
    """One process a side, started when it is first asked for.

    kernels: by side, as they are added. isolation: what held the process that was started last, in words.
    """

    def __init__(self, lane: HostedLane, task: Task, weight_seed: int, cancelled: Callable[[], bool]) -> None:
        self._lane = lane
        self._task = task
        self._weight_seed = weight_seed
        self._cancelled = cancelled
        self._cases: Sequence[KnownCase] = ()
        self._areas: Areas | None = None
        self._init: Mapping[str, Any] = {}
        self._processes: dict[Side, CandidateProcess] = {}
        self._warm: set[tuple[Side, int]] = set()
        self.kernels: dict[Side, Kernel] = {}
        self.isolation = "process"
        self.start_s = 0.0
        """The longest that a program took to start, compilers apart."""

    def stage(self, cases: Sequence[KnownCase], areas: Areas, init: Mapping[str, Any]) -> None:
        """Say what every process is started with: cases, shared memory, what modules are constructed with."""
        self._cases, self._areas, self._init = cases, areas, init

    def process(self, side: Side) -> CandidateProcess:
        """The side's process. Raises KernelFault where its program does not load, NeedsBuilding."""
        if side not in self._processes:
            begin = machine.seconds()
            self._processes[side] = self.standing_in(side, self.kernels[side])
            self.start_s = max(self.start_s, machine.seconds() - begin)
        return self._processes[side]

    def standing_in(self, side: Side, kernel: Kernel | None) -> CandidateProcess:
        """A process of its own with the side's setting and built extensions, around another kernel, or none."""
        built = self._lane.builds.folder(self.kernels[side])
        return self._started(Hosted(kernel, built if kernel is not None and built.is_dir() else None), side)

    def build(self, side: Side, first: KnownCase, fill: Callable[[KnownCase], None]) -> None:
        """Call the program on every case, `first` before others, where it may start compilers; `fill` puts inputs
        there that are used for nothing else.
        """
        self._drop(side)
        kernel = self.kernels[side]
        built = self._lane.builds.folder(kernel)  # of another order of calls
        program = Hosted(kernel, built if built.is_dir() else None)
        with self._started(program, side, building=True) as process:
            for case in sorted(self._cases, key=lambda one: one is not first):
                fill(case)
                process.prepare(case.index, self._lane.load_deadline_s)
                process.call(case.index, self._lane.builds.deadline_s)
            self._lane.builds.keep(kernel, process.home / "cache")

    def is_warm(self, side: Side, case: KnownCase) -> bool:
        """Whether the side's process has run this case already."""
        return (side, case.index) in self._warm

    def warmed(self, side: Side, case: KnownCase) -> None:
        """Note that it has."""
        self._warm.add((side, case.index))

    def end(self) -> None:
        """End both processes, together: a GPU's driver takes its time with each."""
        for process in self._processes.values():
            process.kill()
        while self._processes:
            self._processes.popitem()[1].close()
        self._warm.clear()
        for case in self._cases:
            case.decks.clear()
            case.last.clear()

    def _drop(self, side: Side) -> None:
        process = self._processes.pop(side, None)
        if process is not None:
            process.close()
        self._warm = {(other, index) for other, index in self._warm if other != side}

    def _started(self, program: Hosted, side: Side, *, building: bool = False) -> CandidateProcess:
        process = CandidateProcess(
            program,
            self._setting(side),
            self._lane.zygote,
            defences=self._lane.reached(self._lane.defences),
            load_deadline_s=self._lane.builds.deadline_s if building else self._lane.load_deadline_s,
            building=building,
            cancelled=self._cancelled,
        )
        self.isolation = process.isolation
        return process

    def _setting(self, side: Side) -> Setting:
        assert self._areas is not None, "the stage is set before anything starts"
        problem, cases = self._task.problem, []
        for case in self._cases:
            told = case.told
            arguments: Any = told["tree"]
            destinations: list[int] = []
            if problem is None:
                arguments, destinations = arguments_of_launch(self.kernels[side], self._task, case.case)
            elif not isinstance(arguments, list) or problem.format == "gpumode":
                arguments = [arguments]
            known = {key: told[key] for key in ("forms", "areas", "offsets")}
            cases.append(
                {"arguments": arguments, "destinations": destinations, "returns": told["output_forms"], **known}
            )
        return Setting(
            self._lane.device,
            cases,
            dict(self._init),
            self._weight_seed,
            self._areas.inputs,
            self._areas.mutable,
            self._lane.memory_limit,
            self._lane.flush_bytes,
            self._areas.fetched_at,
            () if problem is None else _PRELOADED.get(problem.format, ()),
        )
