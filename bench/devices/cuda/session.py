"""One measurement on a CUDA device: the oracle fills, the launcher runs and times, the oracle judges; never two at
once.
"""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ....store.errors import DeviceError, InputError
from ....store.models import Case, Mismatch, Task
from ...faults import KernelFault
from ...lane import Inspection, Program, Progress, Tool
from ...timing.samples import SIDE_OF_LETTER, Block, BlockOrder, Sample, Side
from . import inspection
from .faults import fault_reason, refusal_reason
from .guards import DECOY_SHARE, Guards
from .helpers import Helper, HelperDied
from .known import Known, Place
from .layout import Layout, Slab

if TYPE_CHECKING:
    from .lane import CudaLane

INPUT_SETS = 3
BATCH_BELOW_US = 30.0
"""Kernels shorter than this are launched in batches of a graph: an event's own cost would be a visible part of them."""
BATCH_AIM_US = 60.0
MOST_BATCHED = 64
MOST_DECOYS = 2
"""Slots of a rehearsed case that belong to no call; one at least."""
WARM_BLOCKS = 1
"""Blocks that also take the warm column: it is no part of S, and filling and judging its outputs costs as much as
the cold ones' does."""
_LAUNCH_DEADLINE_S = 5.0
_SUSPECTED = 16
"""Rehearsals of a baseline that was wrong in a block: as many calls as a few blocks have."""


@dataclass(frozen=True)
class Prepared:
    """A baseline whose timed cases were found right before in this lane, and its times, by case. In the blocks each
    of its outputs is judged as ever.
    """

    kernel_id: str
    estimates_us: tuple[float, ...]


@dataclass
class _TimedCase:
    case: Case
    layout: Layout
    estimate_us: dict[Side, float] = field(default_factory=dict)
    batch: int = 1


@dataclass
class _Visit:
    """One call of a block still to be judged: the oracle's jobs in the order in which they were launched."""

    side: Side
    case_index: int
    place: int
    cold: list[dict[str, Any]]
    warm: list[dict[str, Any]]


@dataclass
class _Rehearsal:
    """The first calls of the timed cases, one on each of the contents, and a slot a case that no call is given."""

    of_case: list[list[dict[str, Any]]] = field(default_factory=list)
    guards: Guards = field(default_factory=Guards)

    @property
    def jobs(self) -> list[dict[str, Any]]:
        return [job for jobs in self.of_case for job in jobs]

    @property
    def slots(self) -> list[dict[str, Any]]:
        return [*self.jobs, *self.guards.decoys]


class CudaSession:
    """See `bench.lane.Session`."""

    def __init__(self, lane: CudaLane, task: Task, call_deadline_s: float, cancelled: Callable[[], bool]) -> None:
        self._lane = lane
        self._task = task
        self._deadline_s = call_deadline_s
        self._cancelled = cancelled
        self._known = Known(task, lane.constants, self._ask)
        self._programs = self._known.programs
        self._timed: list[_TimedCase] = []
        self._run = 0
        self._blocks_taken = 0
        self._random = np.random.default_rng(secrets.randbits(128))
        self._sample_s: list[float] = []
        self._states: list[dict[str, Any]] = []
        self.isolation = "device-only (launcher process)"
        self.notes: tuple[str, ...] = ()
        self.clock_spread_ns = 0.0
        lane.begin(task)

    # -- sides ---------------------------------------------------------------------------------------------------

    def add(self, side: Side, program: Program) -> None:
        """Its module is loaded with its first programs: one message instead of three."""
        self._programs[side] = program

    def _make_known(self, wanted: Mapping[Side, Sequence[str]]) -> None:
        """Let the launcher in use know these sides' modules, and their programs for these kinds of cases."""
        self._known.make(
            {side: [place for kind in kinds for place in self._places(kind)] for side, kinds in wanted.items()}
        )

    def _places(self, kind: str) -> list[Place]:
        return [(kind, index, case, layout) for index, (case, layout) in enumerate(self._cases(kind))]

    def _cases(self, kind: str) -> list[tuple[Case, Layout]]:
        if kind == "checked":
            return [(case, self._known.layout(case)) for case in self._task.checked]
        if not self._timed:
            self._timed = [_TimedCase(case, self._known.layout(case)) for case in self._task.timed_on("cuda")]
        return [(timed.case, timed.layout) for timed in self._timed]

    # -- asking the launcher -------------------------------------------------------------------------------------

    def _ask(
        self,
        verb: str,
        deadline_s: float = _LAUNCH_DEADLINE_S,
        *,
        cases: Sequence[Case] = (),
        **fields: Any,
    ) -> dict[str, Any]:
        """An answer of the launcher. What the kernel did to it is a KernelFault, which names the one of `cases` it
        ran.
        """
        launcher: Helper = self._lane.launcher()
        try:
            answer = launcher.ask(verb, deadline_s=deadline_s, cancelled=self._cancelled, **fields)
        except HelperDied as death:
            if death.overdue:
                reason = f"it did not finish within its deadline of {deadline_s:g} s"
                raise KernelFault("timeout", reason, death.output) from death
            raise KernelFault("crashed", "it took the launcher process down", death.output) from death
        # What tells how far it came lies where a kernel can reach it.
        where = f", case {cases[min(answer['call'], len(cases) - 1)].name}" if cases and "call" in answer else ""
        if "fault" in answer:  # the process ends with the session, when its turn is over
            raise KernelFault("crashed", fault_reason(answer["fault"], answer["text"]) + where, launcher.output())
        if "refused" in answer:
            raise KernelFault("launch_error", refusal_reason(answer["refused"], answer["text"]) + where)
        return answer

    # -- correctness ---------------------------------------------------------------------------------------------

    def check(self, side: Side, cases: Sequence[Case], progress: Progress) -> Mismatch | None:
        """Twice at the same addresses with other contents: the second round finds a kernel that kept its answers. It
        also rehearses the timed cases, where their contents are there already: what is filled, run and judged in one go
        costs others on the device one wait instead of two.
        """
        if not cases:
            return None
        progress(f"checking {len(cases)} cases")
        wanted: dict[Side, Sequence[str]] = {side: ("checked", "timed")}
        if self._known_baseline():
            wanted["baseline"] = ("timed",)
        self._make_known(wanted)
        slab = Slab()
        layouts = [layout for _, layout in self._cases("checked")]
        jobs = [
            self._job("checked", index, 0, index, slab.take(layout.input_bytes), slab.take(layout.output_bytes))
            for index, layout in enumerate(layouts)
        ]
        calls = [[self._known.number(side, "checked", n), job["in"], job["out"]] for n, job in enumerate(jobs)]
        rehearsal = _Rehearsal()
        room = sum((INPUT_SETS + MOST_DECOYS) * (t.layout.input_bytes + t.layout.output_bytes) for t in self._timed)
        if self._task.id in self._lane.prepared and slab.end + room <= self._lane.slab_limit:
            # Its room is taken now, and filled later: the addresses must stay the same in both rounds.
            rehearsal = self._rehearsal(slab, len(layouts))
            layouts += [timed.layout for timed in self._timed]
        self._fill(layouts, jobs, slab)
        # Its first calls are alone: a kernel that traps while others wait for the device holds them up for seconds.
        with self._lane.alone():
            self._ask("run", self._deadline_s, cases=cases, calls=calls)
        mismatch = self._judge(layouts, {side: jobs}, inputs=True)
        if mismatch is not None:
            return mismatch
        jobs = [{**job, "set": 1} for job in jobs]
        self._fill(layouts, [*jobs, *rehearsal.slots], slab)
        with self._lane.alone() if rehearsal.jobs else nullcontext():
            # What is timed comes first: a call that nobody times could compute the slots of those that are.
            estimates_us = self._rehearse(side, rehearsal)
            self._ask("run", self._deadline_s, cases=cases, calls=calls)
        mismatch = self._judge(layouts, {side: [*jobs, *rehearsal.jobs]}, inputs=True, guards=rehearsal.guards)
        if mismatch is None:
            self._rehearsed(side, estimates_us)
        return mismatch

    def prepare(self, side: Side, progress: Progress) -> Mismatch | None:
        self._make_known({side: ("timed",)})
        known = self._known_baseline()
        if side == "baseline" and known is not None:
            self._estimated(side, known.estimates_us)
        if all(side in timed.estimate_us for timed in self._timed):
            return None
        progress("checking the timed cases")
        slab = Slab()
        rehearsal = self._rehearsal(slab, 0)
        layouts = [timed.layout for timed in self._timed]
        self._fill(layouts, rehearsal.slots, slab)
        with self._lane.alone():
            estimates_us = self._rehearse(side, rehearsal)
        mismatch = self._judge(layouts, {side: rehearsal.jobs}, inputs=True, guards=rehearsal.guards)
        if mismatch is None:
            self._rehearsed(side, estimates_us)
        return mismatch

    def _known_baseline(self) -> Prepared | None:
        """What the lane knows of this baseline."""
        known, baseline = self._lane.prepared.get(self._task.id), self._programs.get("baseline")
        return known if known is not None and baseline is not None and known.kernel_id == baseline.kernel.id else None

    def _rehearsal(self, slab: Slab, first_layout: int) -> _Rehearsal:
        rehearsal = _Rehearsal()
        for index, timed in enumerate(self._timed):
            # In random order, so that a call does not tell where the next one's slot lies; some belong to no call.
            decoys = int(self._random.integers(1, MOST_DECOYS + 1))
            slots = [self._slot(slab, timed.layout) for _ in range(INPUT_SETS + decoys)]
            self._random.shuffle(slots)
            layout = first_layout + index
            rehearsal.guards.decoys += [self._job("timed", index, 0, layout, *slots.pop()) for _ in range(decoys)]
            rehearsal.of_case.append([self._job("timed", index, n, layout, *slot) for n, slot in enumerate(slots)])
        return rehearsal

    def _rehearse(self, side: Side, rehearsal: _Rehearsal) -> list[float]:
        """Microseconds of the slowest call of each timed case: it may have done the others' work, whose slots it
        reaches.
        """
        estimates_us = []
        for index, jobs in enumerate(rehearsal.of_case):
            program = self._known.number(side, "timed", index)
            # No variable is set back: what a kernel kept from its calls so far must not matter in the next ones.
            samples = [
                {"program": program, "cold": [[job["in"], job["out"]]], "warm": [], "renew": False} for job in jobs
            ]
            answer = self._ask("time", INPUT_SETS * self._deadline_s, samples=samples)
            estimates_us.append(self._lane.clock_cost.without(max(times[0] for times in answer["times"]), 1))
        return estimates_us

    def _rehearsed(self, side: Side, estimates_us: list[float]) -> None:
        if not estimates_us:
            return
        self._estimated(side, estimates_us)
        if side == "baseline":
            kernel_id = self._programs[side].kernel.id
            self._lane.prepared[self._task.id] = Prepared(kernel_id, tuple(estimates_us))

    def _estimated(self, side: Side, estimates_us: Sequence[float]) -> None:
        """Take a side's times for what they are good for: how many launches share a sample, once both are known."""
        for timed, estimate in zip(self._timed, estimates_us, strict=True):
            timed.estimate_us[side] = estimate
            if set(timed.estimate_us) == set(self._programs):
                timed.batch = self._batch(min(timed.estimate_us.values()), timed.layout)

    def _batch(self, shortest_us: float, layout: Layout) -> int:
        """Launches that share one sample: 1 for long kernels, and for those that keep variables, which are set back
        before each. Both sides take the same, or they would not compare.
        """
        if shortest_us >= BATCH_BELOW_US or any(map(self._known.keeps_state, self._programs)):
            return 1
        wanted = math.ceil(BATCH_AIM_US / max(shortest_us, 1.0))
        fits = self._lane.slab_limit // max(8 * (layout.input_bytes + layout.output_bytes), 1)
        return max(1, min(wanted, MOST_BATCHED, fits))

    # -- timing --------------------------------------------------------------------------------------------------

    def sample_seconds(self) -> float:
        if self._sample_s:
            return statistics.fmean(self._sample_s)
        estimates = [us for timed in self._timed for us in timed.estimate_us.values()]
        # Before the first block: the call itself, and what filling, flushing and judging cost besides.
        return 4e-6 * statistics.fmean(estimates) + 0.4e-3

    def blocks(self, orders: Sequence[BlockOrder], run: int, group: int, repetitions: int) -> tuple[Block, ...]:
        if run != self._run:
            self._run = run
            self._lane.fresh_launcher()
            self._known.forget()
        begin = time.perf_counter()
        warm_left = WARM_BLOCKS - self._blocks_taken
        per_block = sum(
            4 * repetitions * t.batch * (t.layout.input_bytes + 2 * t.layout.output_bytes) for t in self._timed
        )
        count = max(1, min(len(orders), int(self._lane.slab_limit // max(per_block, 1))))
        slab = Slab()
        guards = Guards()
        visits: list[list[_Visit]] = []
        for number, order in enumerate(orders[:count]):
            visits.append(self._visits(order, repetitions, slab, guards, warm=number < warm_left))
        every = [visit for of_block in visits for visit in of_block]
        layouts = [timed.layout for timed in self._timed]
        calls = [job for visit in every for job in (*visit.cold, *visit.warm)]
        self._fill(layouts, [*calls, *guards.decoys], slab)
        guards.probe([job for visit in every for job in visit.cold], self._random)
        self._make_known(dict.fromkeys(self._programs, ("timed",)))
        samples: list[dict[str, Any]] = []
        for visit in every:
            program = self._known.number(visit.side, "timed", visit.case_index)
            cold = [[job["in"], job["out"]] for job in visit.cold]
            # The warm call reads the inputs that the cold one just read, and writes elsewhere.
            warm = [[c["in"], w["out"]] for c, w in zip(visit.cold, visit.warm, strict=False)]
            samples.append({"program": program, "cold": cold, "warm": warm, "renew": True})
        slowest = max(us for timed in self._timed for us in timed.estimate_us.values())
        deadline_s = self._deadline_s + 20e-6 * slowest * sum(len(s["cold"]) + len(s["warm"]) for s in samples)
        self._states.append(self._lane.monitor.read())
        answer = self._ask("time", deadline_s, samples=samples)
        self._states.append(self._lane.monitor.read())
        sides: dict[Side, list[dict[str, Any]]] = {
            side: [job for visit in every if visit.side == side for job in (*visit.cold, *visit.warm)]
            for side in self._programs
        }
        found = self._first_wrong(layouts, sides, guards=guards)
        if found is not None:
            side, mismatch = found
            whose = "a timed call was wrong"
            if side == "baseline":
                self._suspect_baseline()
                whose = "a timed call of the baseline, which is right alone, was overwritten"
            raise KernelFault("incorrect", f"{whose}: {mismatch.explanation}", mismatch=mismatch)
        self._blocks_taken += count
        self._sample_s.append((time.perf_counter() - begin) / len(every))
        return self._as_blocks(orders[:count], visits, answer["times"], group)

    def _suspect_baseline(self) -> None:
        """Run the baseline by itself, in a fresh launcher: in a block its outputs lie where the candidate reaches them.
        Raises InputError where it is wrong now and then without anybody's help.
        """
        self._lane.fresh_launcher()
        self._known.forget()
        self._make_known({"baseline": ("timed",)})
        layouts = [timed.layout for timed in self._timed]
        for _ in range(_SUSPECTED):
            slab = Slab()
            rehearsal = self._rehearsal(slab, 0)
            self._fill(layouts, rehearsal.slots, slab)
            with self._lane.alone():
                self._rehearse("baseline", rehearsal)
            mismatch = self._judge(layouts, {"baseline": rehearsal.jobs}, inputs=True, guards=rehearsal.guards)
            if mismatch is not None:
                raise InputError(
                    "the baseline is no measure: it is wrong now and then",
                    value=f"{self._programs['baseline'].kernel.name}: {mismatch.explanation}",
                    next_step="Give a baseline that is right, or `--baseline none` for times without a ratio.",
                )

    def _visits(self, order: BlockOrder, repetitions: int, slab: Slab, guards: Guards, *, warm: bool) -> list[_Visit]:
        visits = []
        for index, timed in enumerate(self._timed):
            layout = timed.layout
            for place, letter in enumerate(order):
                for _ in range(repetitions):
                    # In random order, so that a call does not tell where the next one's slot lies.
                    slots = timed.batch + (self._random.random() < DECOY_SHARE)
                    cold = [
                        self._job(
                            "timed", index, int(self._random.integers(INPUT_SETS)), index, *self._slot(slab, layout)
                        )
                        for _ in range(slots)
                    ]
                    self._random.shuffle(cold)
                    guards.decoys += cold[timed.batch :]
                    del cold[timed.batch :]
                    again = []
                    if warm:
                        outs = [slab.take(layout.output_bytes) for _ in cold]
                        again = [{**job, "in": None, "out": out} for job, out in zip(cold, outs, strict=True)]
                    visits.append(_Visit(SIDE_OF_LETTER[letter], index, place, cold, again))
        return visits

    def _as_blocks(
        self, orders: Sequence[BlockOrder], visits: list[list[_Visit]], times: list[list[float]], group: int
    ) -> tuple[Block, ...]:
        remaining = iter(times)
        found = []
        for order, of_block in zip(orders, visits, strict=True):
            samples = []
            for visit in of_block:
                cold_us, *warm_us = (self._lane.clock_cost.without(us, len(visit.cold)) for us in next(remaining))
                warm_ns = warm_us[0] * 1e3 if warm_us else None
                samples.append(Sample(visit.side, visit.case_index, cold_us * 1e3, warm_ns, visit.place))
            found.append(Block(order, tuple(samples), group))
        return tuple(found)

    # -- asking the oracle ---------------------------------------------------------------------------------------

    def _slot(self, slab: Slab, layout: Layout) -> tuple[int, int]:
        """Where the inputs and the outputs of one call lie."""
        return slab.take(layout.input_bytes), slab.take(layout.output_bytes)

    def _job(self, kind: str, case: int, contents: int, layout: int, at: int | None, out: int) -> dict[str, Any]:
        return {"kind": kind, "case": case, "set": contents, "layout": layout, "in": at, "out": out}

    def _fill(self, layouts: Sequence[Layout], jobs: Sequence[dict[str, Any]], slab: Slab) -> None:
        self._lane.reserve(slab.end)
        self._lane.ask_oracle("fill", layouts=[layout.as_message() for layout in layouts], jobs=jobs)

    def _judge(
        self,
        layouts: Sequence[Layout],
        sides: Mapping[Side, Sequence[dict[str, Any]]],
        *,
        inputs: bool = False,
        guards: Guards | None = None,
    ) -> Mismatch | None:
        """What the oracle says of what the sides wrote in these jobs: the first mismatch. Raises KernelFault."""
        wrong = self._first_wrong(layouts, sides, inputs=inputs, guards=guards)
        return None if wrong is None else wrong[1]

    def _first_wrong(
        self,
        layouts: Sequence[Layout],
        sides: Mapping[Side, Sequence[dict[str, Any]]],
        *,
        inputs: bool = False,
        guards: Guards | None = None,
    ) -> tuple[Side, Mismatch] | None:
        """As `_judge`, and whose it is."""
        found = self._lane.ask_oracle(
            "check",
            layouts=[layout.as_message() for layout in layouts],
            sides=[(self._programs[side].kernel.id, jobs) for side, jobs in sides.items()],
            inputs=inputs,
            guards=(guards or Guards()).as_message(),
        )
        whose = [side for side, jobs in sides.items() for _ in jobs]
        answers = [(side, told) for side, told in zip(whose, found["answers"], strict=True) if told is not None]
        overruns = [told["overrun"] for _, told in answers if "overrun" in told]
        overruns += [] if found["guard"] is None else [found["guard"]]
        if overruns:
            raise KernelFault("incorrect", overruns[0])
        return (answers[0][0], Mismatch.model_validate(answers[0][1]["mismatch"])) if answers else None

    def inspect(self, tool: Tool, progress: Progress) -> Inspection:
        progress("counting with Nsight Compute" if tool == "profile" else "looking for memory errors and races")
        program, lane = self._programs["candidate"], self._lane
        if tool == "profile":
            return inspection.profile(program, self._task, lane.constants, lane.ordinal, lane.facts.arch)
        return inspection.sanitize(program, self._task, lane.constants, lane.ordinal)

    def environment(self) -> dict[str, Any]:
        batches = {timed.case.name: timed.batch for timed in self._timed}
        cost = asdict(self._lane.clock_cost)
        found = {**self._lane.description, "states": self._states, "launches_per_sample": batches, "clock_cost": cost}
        return (
            {**found, "variables_not_set_back": sorted(self._known.unreachable)} if self._known.unreachable else found
        )

    @property
    def launch_mode(self) -> str:
        return "graph" if any(timed.batch > 1 for timed in self._timed) else "stream"

    def __enter__(self) -> CudaSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._lane.end_session(clean=error is None or isinstance(error, KernelFault))
        except HelperDied as death:
            raise DeviceError(
                "the launcher died while it was idle", value=death.output, next_step="Run `kforecast doctor`."
            ) from death
