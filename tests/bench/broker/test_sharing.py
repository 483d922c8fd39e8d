"""A service that shares its device: how it holds it, what it tells the lane, and which seconds count."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from kforecast.bench.broker import processes_alive
from kforecast.bench.broker.lock import device_lock, holder
from kforecast.bench.broker.payload import MeasurePayload
from kforecast.bench.broker.service import Service
from kforecast.bench.faults import Cancelled
from kforecast.bench.header.signature import Signature
from kforecast.bench.lane import Inspection, Program, Progress, Tool
from kforecast.bench.languages.build import Build
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.bench.timing.samples import SIDE_OF_LETTER, Block, BlockOrder, Sample, Side
from kforecast.bench.turns import Turns
from kforecast.store import kernels, measurements, requests, tasks
from kforecast.store.clock import utc_now
from kforecast.store.database import Store
from kforecast.store.models import Case, Facts, Kernel, Launch, Measurement, Mismatch, Request, Task

TASK = builtin_task("vector_add")
DEVICE_ID = "GPU-pretend"
KERNEL = Kernel.make(
    language="cuda",
    name="add",
    source='extern "C" __global__ void add(const float* a, const float* b, float* c, int N) {}',
    launches=(Launch(entry="add", args=("a", "b", "c", "N")),),
    task_id=TASK.id,
)


class PretendLane:
    """A lane that may be shared: it checks beside others, times alone, and says who else could have come in then."""

    device, device_id, kind, lane, launch_mode = "cuda:0", DEVICE_ID, "cuda", "device-only", "stream"
    isolation, clock_spread_ns, notes = "none", 0.0, ()

    def __init__(self, on_check: Callable[[], None] = lambda: None) -> None:
        self.turns: Turns | None = None
        self.sharers = 1
        self.ready = 0
        self.begun = False
        self.beside: list[str] = []
        self.held: list[str] = []
        self._on_check = on_check

    def share(self, turns: Turns, sharers: int) -> None:
        assert not self.begun, "before anything is started"
        self.turns, self.sharers = turns, sharers

    def get_ready(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        self.ready += 1
        self._look()

    def warm_up(self) -> None:
        self.begun = True

    def compile(self, kernel: Kernel, signatures: Sequence[Signature], task: Task | None = None) -> Build:
        return Build(None, Facts(ok=True))

    def floor_us(self, task: Task, case: Case) -> float | None:
        return None

    def session(self, task: Task, *, call_deadline_s: float, cancelled: Callable[[], bool]) -> PretendLane:
        return self

    def close(self) -> None: ...

    def add(self, side: Side, program: Program) -> None: ...

    def check(self, side: Side, cases: Sequence[Case], progress: Progress) -> Mismatch | None:
        self._on_check()
        with self._turn("beside"):
            self._look()
        return None

    def prepare(self, side: Side, progress: Progress) -> Mismatch | None:
        return None

    def sample_seconds(self) -> float:
        return 1e-4

    def blocks(self, orders: Sequence[BlockOrder], run: int, group: int, repetitions: int) -> tuple[Block, ...]:
        with self._turn("alone"):
            self._look()
        cases = range(len(TASK.timed_on(self.kind)))

        def samples(order: BlockOrder) -> tuple[Sample, ...]:
            visits = [(place, SIDE_OF_LETTER[letter]) for place, letter in enumerate(order)]
            return tuple(Sample(side, index, 1e4, None, place) for index in cases for place, side in visits)

        return tuple(Block(order, samples(order), group) for order in orders)

    def inspect(self, tool: Tool, progress: Progress) -> Inspection:
        self._look()
        return Inspection()

    def environment(self) -> dict[str, Any]:
        return {}

    def __enter__(self) -> PretendLane:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @contextmanager
    def _turn(self, kind: str) -> Iterator[None]:
        if self.turns is None:
            yield
            return
        with getattr(self.turns, kind)():
            yield

    def _look(self) -> None:
        """Whether a hand could check now, and whether one could time."""
        other = Turns(DEVICE_ID)
        found = []
        with other.measuring(lambda: True):
            for kind in ("beside", "alone"):
                try:
                    with getattr(other, kind)():
                        found.append(kind)
                except Cancelled:
                    continue
        self.beside.append(" ".join(found))
        told = holder(DEVICE_ID)
        self.held.append("" if told is None else told["purpose"])


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open() as opened:
        tasks.save(opened, TASK)
        kernels.save(opened, KERNEL)
        yield opened


def serving(store: Store, lane: PretendLane, monkeypatch: pytest.MonkeyPatch, sharers: int) -> Service:
    monkeypatch.setattr("kforecast.bench.broker.service.open_lane", lambda device, profile: lane)
    return Service(store, "cuda:0", processes_alive.owner_name("test"), sharers=sharers)


def measured(service: Service, *, profile: bool = False) -> tuple[Request, Measurement]:
    payload = MeasurePayload(kernel_id=KERNEL.id, baseline_id=KERNEL.id, effort="quick", profile=profile)
    asked = requests.enqueue(service.store, device="cuda:0", payload=payload.model_dump(mode="json"), client="c")
    claimed = requests.claim(service.store, asked.id, service.owner)
    assert claimed is not None
    service.work_off(claimed)
    row = requests.get(service.store, asked.id)
    assert row is not None and row.state == "completed", row
    found = measurements.get(service.store, str(row.result_id))
    assert found is not None
    return row, found


def test_a_holder_that_is_about_to_say_who_it_is_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    locked, seen = threading.Event(), threading.Event()

    def late() -> str:
        locked.set()  # the lock is taken, the record not yet written
        time.sleep(0.05)
        return utc_now()

    def hold() -> None:
        with device_lock(DEVICE_ID, device="cuda:0", purpose="r_1"):
            seen.wait(10)

    monkeypatch.setattr("kforecast.bench.broker.lock.utc_now", late)
    monkeypatch.setattr("kforecast.bench.broker.lock._WRITTEN_S", 10.0)  # however busy this machine is
    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert locked.wait(10)
        found = holder(DEVICE_ID)
    finally:
        seen.set()
        thread.join()
    assert found is not None
    assert (found["pid"], found["purpose"]) == (os.getpid(), "r_1")
    assert holder(DEVICE_ID) is None


def test_shared_it_is_alone_only_while_it_times_and_looks_inside(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    lane = PretendLane()
    service = serving(store, lane, monkeypatch, sharers=3)
    row, found = measured(service, profile=True)
    service.close()
    assert lane.sharers == 3
    assert lane.ready == 1
    _, check, again, *timed, inspected = lane.beside
    assert check == again == "beside", "others could check, not time"
    assert {*timed, inspected} == {""}, "nobody else could do anything"
    assert {row.id in purpose for purpose in lane.held} == {True}
    assert found.environment["turns"]["alone_s"] > 0
    assert found.environment["turns"]["alone_s"] <= found.device_seconds


def test_not_shared_it_has_all_of_the_device_and_takes_no_turns(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    lane = PretendLane(_nobody_gets_in)
    service = serving(store, lane, monkeypatch, sharers=1)
    _, found = measured(service)
    service.close()
    assert lane.turns is None
    assert "turns" not in found.environment


def _nobody_gets_in() -> None:
    for shared in (False, True):
        with (
            pytest.raises(Cancelled),
            device_lock(DEVICE_ID, device="cuda:0", purpose="b", shared=shared, cancelled=lambda: True),
        ):
            pytest.fail("beside one who has all of the device")


def test_shared_others_may_share_and_nobody_gets_all_of_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[str] = []

    def come_in() -> None:
        with device_lock(DEVICE_ID, device="cuda:0", purpose="b", shared=True, cancelled=lambda: True):
            met.append("shared")
        with pytest.raises(Cancelled), device_lock(DEVICE_ID, device="cuda:0", purpose="b", cancelled=lambda: True):
            met.append("all")

    service = serving(store, PretendLane(come_in), monkeypatch, sharers=2)
    measured(service)
    service.close()
    assert set(met) == {"shared"}


def test_seconds_waited_for_a_turn_do_not_count(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither as the device's nor against the time that sampling may take."""
    wait_s = 0.5
    taken = threading.Event()

    def other() -> None:
        with Turns(DEVICE_ID).alone():
            taken.set()
            time.sleep(wait_s)

    def let_in() -> None:
        if not taken.is_set():
            threading.Thread(target=other).start()
            assert taken.wait(30)

    service = serving(store, PretendLane(let_in), monkeypatch, sharers=2)
    begin = time.monotonic()
    _, found = measured(service)
    wall_s = time.monotonic() - begin
    service.close()
    assert found.environment["turns"]["waited_s"] > wait_s / 2
    assert found.device_seconds <= wall_s - found.environment["turns"]["waited_s"]


def test_getting_ready_holds_the_device_beside_others(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    lane = PretendLane()
    service = serving(store, lane, monkeypatch, sharers=2)
    service.get_ready()
    service.close()
    assert lane.ready == 1
    (purpose,) = lane.held
    assert purpose.startswith("get ready")
    assert holder(DEVICE_ID) is None


def test_alone_there_is_nothing_to_get_ready(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker with one hand waits for nothing before its first measurement."""
    lane = PretendLane()
    service = serving(store, lane, monkeypatch, sharers=1)
    service.get_ready()
    service.close()
    assert (lane.begun, lane.ready) == (True, 0)
