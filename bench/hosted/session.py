"""One measurement of Python programs: the oracle fills and judges, candidates run one at a time, the parent keeps time
and verdict.
"""

from __future__ import annotations

import secrets
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ...store.errors import InputError
from ...store.models import Case, Kernel, Mismatch, Task
from ..devices.cpu import machine
from ..devices.cpu.deck import Deck
from ..faults import KernelFault
from ..lane import Inspection, Program, Progress, Tool
from ..timing.samples import SIDE_OF_LETTER, Block, BlockOrder, Sample, Side
from .candidates import Candidates
from .device_code import NOTE, as_hosted
from .forms import KnownCase, wrong_form
from .memory import SharedMemory
from .process import CandidateProcess, NeedsBuilding
from .shares import OUTPUT_BYTES, seen_in, watched_kernel
from .taking import Areas, Taking
from .trees import placed
from .wire import form_of

if TYPE_CHECKING:
    from .lane import HostedLane

T = TypeVar("T")
INPUT_SETS = 3
CHECKS = 2
"""Contents of a checked case: at the same addresses, so that a program which kept its answer is found."""
_FRESH = INPUT_SETS
"""The number of the content that is made anew for one call."""
_NULL_CALLS = 15
_SOON_S = 0.5
"""A program that loads within this is loaded anew for each block."""
_ENDURED_CALLS = 16
_ENDURED_S = 0.25


class HostedSession:
    """See `bench.lane.Session`."""

    def __init__(self, lane: HostedLane, task: Task, call_deadline_s: float, cancelled: Callable[[], bool]) -> None:
        self._lane = lane
        self._task = task
        self._deadline_s = call_deadline_s
        self._cancelled = cancelled
        self._defences = lane.defences
        self._random = np.random.default_rng(secrets.randbits(128))
        self._gpu = lane.kind == "cuda"
        self._programs: dict[Side, Program] = {}
        self._device_code: dict[Side, Program] = {}
        self._run = 0
        self._endured = False
        self._cases: dict[str, KnownCase] = {}
        self._areas: Areas | None = None
        self._null_ns = 0.0
        self.clock_spread_ns = 0.0
        self._cost_s: list[float] = []
        self.launch_mode = lane.launch_mode
        self.notes: tuple[str, ...] = ()
        self._say: Progress = lambda text: None
        self._started = machine.snapshot()
        self._state = lane.monitor.read() if lane.monitor else {}
        self._weight_seed = self._seed()
        self._candidates = Candidates(lane, task, self._weight_seed, cancelled)
        self._opened = self._open()

    @property
    def isolation(self) -> str:
        return self._candidates.isolation

    # -- sides and cases -----------------------------------------------------------------------------------------

    def add(self, side: Side, program: Program) -> None:
        self._programs[side] = as_hosted(program, self._task, self._lane.constants)
        self._candidates.kernels[side] = self._programs[side].kernel
        if self._programs[side] is not program:
            self._device_code[side] = program
            self.notes += (NOTE,)

    def _open(self) -> dict[str, Any]:
        answer = self._ask("open", task_id=self._task.id, task=None, seed=self._weight_seed)
        if "unknown" in answer:
            task = self._task.model_dump(mode="json")
            answer = self._ask("open", task_id=self._task.id, task=task, seed=self._weight_seed)
        return answer

    def _learn(self, cases: Sequence[Case], progress: Progress) -> None:
        """Have every case learned and shared memory made that holds the largest."""
        if self._cases:
            return
        passing: set[str] | None = None
        every = (*self._task.checked, *self._task.timed_on(self._lane.kind))
        for case in {case.name: case for case in every}.values():
            progress(f"learning the reference, case {len(self._cases) + 1}")
            told = self._ask(
                "learn", case=case.model_dump(mode="json"), seed=secrets.randbits(63), other_seed=secrets.randbits(63)
            )
            forms = [form_of(one) for one in told["output_forms"]]
            offsets, size = placed(forms)
            self._cases[case.name] = KnownCase(case, len(self._cases), told, forms, told["aliases"], offsets, size)
            passing = set(told["passing"]) if passing is None else passing & set(told["passing"])
            self.notes += tuple(note for note in told["notes"] if note not in self.notes)
        if passing:
            raise InputError(
                f"the problem {self._task.name} cannot tell right from wrong: a null kernel passes every case",
                value=", ".join(sorted(passing)),
                next_step="Measure a problem whose output depends on its inputs and is not near a constant.",
            )
        areas = Areas.for_cases(list(self._cases.values()), int(self._opened["bytes"]), gpu=self._gpu)
        self._areas = areas
        self._taking = Taking(
            areas, self._random, gpu=self._gpu, late=self._defences.freeze, deadline_s=self._deadline_s
        )
        self._ask("map", paths=areas.paths)
        init = self._placed_init(areas.inputs, max(int(form.told["bytes"][0]) for form in self._cases.values()))
        self._candidates.stage(list(self._cases.values()), areas, init)
        if self._defences.seal:
            areas.inputs.seal()

    def _placed_init(self, inputs: SharedMemory, start: int) -> dict[str, Any]:
        """What modules are constructed with: it lies behind the largest case's inputs."""
        if self._opened["forms"]:
            self._ask("write_init", path=inputs.path, start=start)
        offsets = [start + offset for offset in self._opened["offsets"]]
        return {"tree": self._opened["tree"], "forms": self._opened["forms"], "offsets": offsets}

    def _with_builds(self, side: Side, form: KnownCase, attempt: Callable[[], T]) -> T:
        """Try; where the program wants to build something first, have it built and try once more."""
        try:
            return attempt()
        except NeedsBuilding as wanted:
            self._say(f"building {wanted}")
        self._candidates.build(side, form, lambda case: self._fill(case, _FRESH, make=True))
        try:
            return attempt()
        except NeedsBuilding as wanted:
            raise KernelFault("unsupported", f"it wants to build {wanted} each time it runs") from wanted

    # -- correctness ---------------------------------------------------------------------------------------------

    def check(self, side: Side, cases: Sequence[Case], progress: Progress) -> Mismatch | None:
        self._learn(cases, progress)
        timed = {case.name for case in self._task.timed_on(self._lane.kind)}
        others = [case for case in cases if case.name not in timed]  # the timed ones are checked when they are prepared
        for number, case in enumerate(others, 1):
            self._say = progress
            progress(f"checking case {number} of {len(others)}")
            mismatch = self._check_contents(side, self._cases[case.name], CHECKS)
            if mismatch is not None:
                return mismatch
        return None

    def prepare(self, side: Side, progress: Progress) -> Mismatch | None:
        timed = self._task.timed_on(self._lane.kind)
        self._learn(timed, progress)
        for number, case in enumerate(timed, 1):
            self._say = progress
            progress(f"checking timed case {number} of {len(timed)}")
            mismatch = self._check_contents(side, self._cases[case.name], INPUT_SETS)
            if mismatch is not None:
                return mismatch
        if not self._null_ns:
            self._calibrate(side)
        return None

    def _check_contents(self, side: Side, form: KnownCase, count: int) -> Mismatch | None:
        return self._with_builds(side, form, lambda: self._try_contents(side, form, count))

    def _try_contents(self, side: Side, form: KnownCase, count: int) -> Mismatch | None:
        process = self._candidates.process(side)
        elapsed: list[int] = []
        for number in range(count):
            begin = machine.seconds()
            first = not any(known == number for _, known in form.verified)
            nanoseconds, mismatch = self._call(process, side, form, number, make=first, deadline_s=self._deadline_s)
            if mismatch is None and self._gpu:
                mismatch = self._taking.changed_input(process, form)
            if mismatch is not None:
                return mismatch
            elapsed.append(nanoseconds)
            self._cost_s.append(machine.seconds() - begin)
        form.estimate_ns[side] = min(elapsed)
        self._candidates.warmed(side, form)
        return None

    def _call(
        self, process: CandidateProcess, side: Side, form: KnownCase, number: int, *, make: bool, deadline_s: float
    ) -> tuple[int, Mismatch | None]:
        """One call on one content: nanoseconds, and what is wrong with what it returned."""
        self._fill(form, number, make=make)
        process.prepare(form.index, self._deadline_s)
        if not self._gpu:
            self._lane.sweep()
        nanoseconds, returned = process.call(form.index, deadline_s)
        wrong = wrong_form(process, form, returned, device=self._lane.device, types=self._defences.types)
        if wrong is not None:
            return nanoseconds, wrong
        places, seen = self._taking.places(returned.forms), b""
        if places:
            more, seen = process.glance(places, deadline_s)
            nanoseconds += more
        taken = self._taking.take(process, side, form, returned, nanoseconds, (places, seen))
        if number != _FRESH and form.verified.get((side, number)) == taken.kept:
            return nanoseconds, None
        assert self._areas is not None
        answer = self._ask(
            "judge",
            case=form.case.model_dump(mode="json"),
            number=number,
            path=self._areas.outputs.path,
            tree=returned.tree,
            forms=[one.as_data() for one in taken.forms],
            offsets=taken.offsets,
        )
        if "refused" in answer:
            raise KernelFault("incorrect", str(answer["refused"]))
        if "mismatch" in answer:
            return nanoseconds, Mismatch.model_validate(answer["mismatch"])
        if number != _FRESH:
            form.verified[side, number] = taken.kept
        return nanoseconds, None

    def _fill(self, form: KnownCase, number: int, *, make: bool) -> None:
        """Have one content of a case written where candidates read; make: from a fresh seed."""
        assert self._areas is not None
        paths = self._areas.paths[:2]
        seed = self._seed() if make else None
        self._ask("fill", case=form.case.model_dump(mode="json"), number=number, seed=seed, paths=paths, write=True)

    # -- timing --------------------------------------------------------------------------------------------------

    def _calibrate(self, side: Side) -> None:
        """The null round trip, after the same sweep as a real call: its least, and its spread. See the cpu lane.

        On a GPU also what it takes to copy outputs that are there already.
        """
        trips = []
        own = None if self._defences.trusted_null else self._candidates.process(side)
        process = own or self._candidates.standing_in(side, None)
        try:
            timed = [self._cases[case.name] for case in self._task.timed_on(self._lane.kind)]
            for number in range(_NULL_CALLS):
                form = timed[number % len(timed)]
                process.prepare(form.index, self._deadline_s)
                if not self._gpu:
                    self._lane.sweep()
                trips.append(self._null_trip(process, form))
            for form in timed if self._gpu else ():
                process.prepare(form.index, self._deadline_s)
                self._null_trip(process, form)
                form.fetch_ns = statistics.median_high(self._taking.fetch_ns(process) for _ in range(3))
        finally:
            if own is None:
                process.close()
        self._null_ns = min(trips)
        quartiles = statistics.quantiles(trips, n=4)
        self.clock_spread_ns = (quartiles[2] - quartiles[0]) / 1.349  # the normal law's sigma

    def _null_trip(self, process: CandidateProcess, form: KnownCase) -> int:
        """Nanoseconds of a call that computes nothing, and of looking at what it returned where that is part of one."""
        nanoseconds, returned = process.call(form.index, self._deadline_s)
        places = self._taking.places(returned.forms)
        return nanoseconds + (process.glance(places, self._deadline_s)[0] if places else 0)

    def sample_seconds(self) -> float:
        return statistics.fmean(self._cost_s[-20:]) if self._cost_s else 0.1

    def blocks(self, orders: Sequence[BlockOrder], run: int, group: int, repetitions: int) -> tuple[Block, ...]:
        """One block. Each run has processes of its own, and on the cpu, if they start soon, each block: two processes
        of one program can differ as long as they live, in how their threads share the cores for one.
        """
        order = orders[0]
        if self._renews and not self._endured:
            self._endure()
        if run != self._run or self._renews:
            self._run = run
            self._candidates.end()
        samples: list[Sample] = []
        for index, case in enumerate(self._task.timed_on(self._lane.kind)):
            form = self._cases[case.name]
            for place, letter in enumerate(order):
                side = SIDE_OF_LETTER[letter]
                for _ in range(repetitions):
                    nanoseconds = self._with_builds(side, form, partial(self._sample, side, form))
                    samples.append(Sample(side, index, nanoseconds, None, place))
        return (Block(order, tuple(samples), group),)

    def _endure(self) -> None:
        """Call the candidate's process more often than timed ones are: it has to be right for longer than a block."""
        self._endured = True
        for case in self._task.timed_on(self._lane.kind):
            form = self._cases[case.name]
            until = machine.seconds() + _ENDURED_S
            for number in range(_ENDURED_CALLS):
                if number > INPUT_SETS and machine.seconds() > until:
                    break
                self._with_builds("candidate", form, partial(self._drawn_call, "candidate", form))

    def _sample(self, side: Side, form: KnownCase) -> float:
        """Nanoseconds of one cold call, whose output is checked."""
        if not self._candidates.is_warm(side, form):  # what only a process's first call does is not what is timed
            self._drawn_call(side, form)
            self._candidates.warmed(side, form)
        begin = machine.seconds()
        nanoseconds = self._drawn_call(side, form)
        self._cost_s.append(machine.seconds() - begin)
        return max(nanoseconds - self._null_ns, 1.0)

    def _drawn_call(self, side: Side, form: KnownCase) -> int:
        """Nanoseconds of a call on the contents that come next."""
        process = self._candidates.process(side)
        deck = form.decks.setdefault(side, Deck(INPUT_SETS, self._random, honest=self._defences.contents))
        number, change = deck.draw()
        if self._defences.contents and number == form.last.get(side) and not change:
            number = (number + 1) % INPUT_SETS
        form.last[side] = _FRESH if change else number
        if not self._defences.contents:
            number = 0
        number = _FRESH if change else number
        deadline_s = min(max(20e-9 * form.estimate_ns[side], 10.0), self._deadline_s)
        nanoseconds, mismatch = self._call(process, side, form, number, make=change, deadline_s=deadline_s)
        if mismatch is not None:
            raise KernelFault("incorrect", f"a timed call was wrong: {mismatch.explanation}", mismatch=mismatch)
        return nanoseconds

    # -- the rest ------------------------------------------------------------------------------------------------

    def inspect(self, tool: Tool, progress: Progress) -> Inspection:
        device_code, kernel = self._device_code.get("candidate"), self._programs["candidate"].kernel
        if device_code is not None:
            progress("counting with Nsight Compute" if tool == "profile" else "looking for memory errors and races")
            return self._lane.inspect(tool, device_code, self._task)
        if tool == "profile" and self._gpu:
            progress("looking whose kernels ran")
            try:
                return seen_in(self._printed(watched_kernel(kernel)), kernel)
            except (KernelFault, NeedsBuilding) as fault:
                return Inspection(notes=(f"its kernels could not be watched: {fault}",))
        if tool == "profile":
            return Inspection(notes=("no profile: counters are read in the device-only lane",))
        return Inspection()

    def _printed(self, kernel: Kernel) -> str:
        """What a program prints that stands for the candidate and is called once, on its longest timed case."""
        timed = [self._cases[case.name] for case in self._task.timed_on(self._lane.kind)]
        form = max(timed, key=lambda one: one.estimate_ns["candidate"])
        with self._candidates.standing_in("candidate", kernel) as process:
            self._fill(form, _FRESH, make=True)
            process.prepare(form.index, self._deadline_s)
            process.call(form.index, 4 * self._deadline_s)
            return process.output(OUTPUT_BYTES)

    def environment(self) -> dict[str, Any]:
        toolchains = {side: program.build.facts.toolchain for side, program in self._programs.items()}
        return {
            **self._lane.describe(),
            **({"states": [self._state, self._lane.monitor.read()]} if self._lane.monitor else {}),
            "toolchains": toolchains,
            "null_call_us": self._null_ns / 1e3,
            "null_call_spread_us": self.clock_spread_ns / 1e3,
            "before": self._started,
            "after": machine.snapshot(),
        }

    def _seed(self) -> int:
        return secrets.randbits(63) if self._defences.seeds else 42

    def _ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        return self._lane.oracle.ask(verb, cancelled=self._cancelled, **fields)

    @property
    def _renews(self) -> bool:
        """Whether each block gets processes of its own."""
        return not self._gpu and self._candidates.start_s < _SOON_S

    def __enter__(self) -> HostedSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._candidates.end()
            self._lane.release()
        finally:
            if self._areas is not None:
                self._areas.close()
