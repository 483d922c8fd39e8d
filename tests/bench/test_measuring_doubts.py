"""What `measure` makes of doubtful times and of a look inside the kernel, on a lane that only pretends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import pytest

from kforecast.bench.header.signature import Signature
from kforecast.bench.lane import Inspection, Program, Progress, Tool
from kforecast.bench.languages.build import Build
from kforecast.bench.measuring import Job, measure
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.bench.timing.samples import SIDE_OF_LETTER, Block, BlockOrder, Sample, Side
from kforecast.store.models import Case, Effort, Facts, Kernel, Launch, Measurement, Mismatch, Task

TASK = builtin_task("vector_add")


def kernel(name: str) -> Kernel:
    return Kernel.make(
        language="c",
        name=name,
        source=f"void {name}(const float* a, const float* b, float* c, int N) {{}}",
        launches=(Launch(entry=name, args=("a", "b", "c", "N")),),
        task_id=TASK.id,
    )


@dataclass
class PretendLane:
    """Every call takes what `times_us` says; `inspections` is what a look inside finds, `looked` what was asked for."""

    times_us: dict[Side, float]
    floor: float | None = None
    inspections: dict[Tool, Inspection] = field(default_factory=dict)
    looked: list[Tool] = field(default_factory=list)
    device: str = "cuda:0"
    device_id: str = "GPU-0"
    kind: str = "cuda"
    lane: Any = "device-only"
    launch_mode: str = "stream"
    isolation: str = "none"
    clock_spread_ns: float = 0.0
    notes: tuple[str, ...] = ()
    starts_s: float = 0.0

    def get_ready(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        time.sleep(self.starts_s)

    def compile(self, kernel: Kernel, signatures: Sequence[Signature], task: Task | None = None) -> Build:
        return Build(None, Facts(ok=True))

    def floor_us(self, task: Task, case: Case) -> float | None:
        return self.floor

    def session(self, task: Task, *, call_deadline_s: float, cancelled: Callable[[], bool]) -> PretendLane:
        return self

    def close(self) -> None: ...

    def add(self, side: Side, program: Program) -> None: ...

    def check(self, side: Side, cases: Sequence[Case], progress: Progress) -> Mismatch | None:
        return None

    def prepare(self, side: Side, progress: Progress) -> Mismatch | None:
        return None

    def sample_seconds(self) -> float:
        return 1e-4

    def blocks(self, orders: Sequence[BlockOrder], run: int, group: int, repetitions: int) -> tuple[Block, ...]:
        def samples(order: BlockOrder) -> tuple[Sample, ...]:
            visits = [(place, SIDE_OF_LETTER[letter]) for place, letter in enumerate(order)]
            cases = range(len(TASK.timed_on(self.kind)))
            return tuple(
                Sample(side, index, 1e3 * self.times_us[side], None, place)
                for index in cases
                for place, side in visits
                for _ in range(repetitions)
            )

        return tuple(Block(order, samples(order), group) for order in orders)

    def inspect(self, tool: Tool, progress: Progress) -> Inspection:
        self.looked.append(tool)
        return self.inspections.get(tool, Inspection())

    def environment(self) -> dict[str, Any]:
        return {}

    def __enter__(self) -> PretendLane:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def measured(lane: PretendLane, effort: Effort = "quick", *, profile: bool = False, alone: bool = False) -> Measurement:
    job = Job(TASK, kernel("candidate"), None if alone else kernel("baseline"), effort, profile=profile)
    return measure(job, lane, device_lock=nullcontext)


@pytest.mark.parametrize("floor", [None, 9.0, 11.0])
def test_a_believable_time_stays_what_it_is(floor: float | None) -> None:
    found = measured(PretendLane({"candidate": 10.0, "baseline": 20.0}, floor))
    assert (found.verdict, found.comparison, found.quarantine) == ("ok", "faster", None)
    assert found.speedup == pytest.approx(2.0)
    assert (found.percent_of_floor is None) == (floor is None)


def test_a_time_under_the_floor_is_kept_in_quarantine() -> None:
    found = measured(PretendLane({"candidate": 8.0, "baseline": 20.0}, 10.0))
    assert found.verdict == "ok" and found.time_us == pytest.approx(8.0)
    assert found.quarantine is not None and "0.80" in found.quarantine


@pytest.mark.parametrize("alone", [False, True])
def test_half_the_floor_is_a_verdict_and_no_number(alone: bool) -> None:
    found = measured(PretendLane({"candidate": 4.0, "baseline": 20.0}, 10.0), alone=alone)
    assert (found.verdict, found.comparison) == ("impossible", "none")
    assert found.time_us is None and found.log2_speedup is None and found.cases == ()
    assert "0.40" in found.reason and "4.000 us, floor 10.000 us" in found.diagnostics


def test_counters_are_read_when_asked_for_and_become_notes() -> None:
    lane = PretendLane({"candidate": 10.0, "baseline": 20.0}, inspections={"profile": Inspection(("memory-bound",))})
    assert "memory-bound" in measured(lane, profile=True).notes and lane.looked == ["profile"]
    lane.looked.clear()
    assert "memory-bound" not in measured(lane).notes and lane.looked == []


def test_a_claimed_win_is_looked_into_and_a_loss_is_not() -> None:
    finding = Inspection(("racecheck: 1 hazard",), ("race",), "memcheck: 2 memory errors")
    win = PretendLane({"candidate": 10.0, "baseline": 20.0}, inspections={"sanitize": finding})
    found = measured(win, "claim")
    assert win.looked == ["sanitize"]
    assert found.quarantine == "memcheck: 2 memory errors" and "race" in found.labels
    assert "racecheck: 1 hazard" in found.notes and found.comparison == "faster"
    loss = PretendLane({"candidate": 20.0, "baseline": 10.0}, inspections={"sanitize": finding})
    assert measured(loss, "claim").quarantine is None and loss.looked == []


def test_the_start_of_a_device_is_charged_to_nobody() -> None:
    """A search with seconds to spend would have none left after the first measurement of a cold device."""
    slow = measured(PretendLane({"candidate": 10.0, "baseline": 10.0}, starts_s=2.0))
    assert slow.device_seconds < 2.0
