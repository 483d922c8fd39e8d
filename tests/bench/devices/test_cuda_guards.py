"""Whole measurements on a stand-in for the GPU: kernels that look ahead or keep answers, and honest ones. No GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_cupy import FakeCupy

from kforecast.bench.devices.cuda.clock import ClockCost
from kforecast.bench.devices.cuda.judging import Oracle
from kforecast.bench.devices.cuda.session import CudaSession, Prepared
from kforecast.bench.languages.build import Build
from kforecast.bench.measuring import Job, measure
from kforecast.bench.tasks.builtin import builtin_kernel, builtin_task
from kforecast.store.errors import DeviceError, InputError
from kforecast.store.models import Case, Facts, Kernel, Measurement
from kforecast.tools.kernels import Asked, load_file

N = 2048
TASK = builtin_task("vector_add").model_copy(update={"timed": {"cuda": (Case(sizes={"N": N}),)}})


BASELINE_CUBIN = Path(__file__).with_name("fake_cupy.py")
"""Any file that is there."""


@dataclass
class Call:
    """One launch: the addresses that it was given, and what a kernel can reach from them: the whole slab."""

    memory: np.ndarray
    a_at: int
    b_at: int
    c_at: int
    n: int

    def floats(self, at: int) -> np.ndarray:
        return self.memory[at : at + 4 * self.n].view(np.float32)

    @property
    def a(self) -> np.ndarray:
        return self.floats(self.a_at)

    @property
    def b(self) -> np.ndarray:
        return self.floats(self.b_at)

    @property
    def c(self) -> np.ndarray:
        return self.floats(self.c_at)


State = dict[Any, Any]
Body = Callable[[Call, State], None]


@dataclass
class FakeLauncher:
    """Answers as the launcher does. Every call takes `us` microseconds; `state`: the module's device variables."""

    slab: Callable[[], np.ndarray]
    body: Body
    us: float
    stateful: bool
    state: State = field(default_factory=dict)
    known: list[dict[str, Any]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    of_baseline: list[bool] = field(default_factory=list)
    """Whether each program is the baseline's."""
    spoils: Callable[[Call, bool], None] = lambda call, baseline: None
    """What happens after a call besides; told whose it was."""
    refused: set[str] = field(default_factory=set)
    """Cubins that cannot be loaded."""

    def ask(self, verb: str, *, deadline_s: float = 0, cancelled: object = None, **fields: Any) -> dict[str, Any]:
        self.asked.append(verb)
        return dict(getattr(self, verb)(fields))

    def load(self, message: dict[str, Any]) -> dict[str, Any]:
        for module in message["modules"]:
            self.of_baseline += [module["cubin"] == str(BASELINE_CUBIN)] * len(module["programs"])
        if any(module["cubin"] in self.refused for module in message["modules"]):
            return {"refused": "CUDA_ERROR_OUT_OF_MEMORY", "text": "no memory", "call": 0}
        assert all(module["stateful"] == self.stateful for module in message["modules"])
        return {"loaded": [{"module": 0, "unreachable": [], **self.programs(module)} for module in message["modules"]]}

    def programs(self, message: dict[str, Any]) -> dict[str, Any]:
        first = len(self.known)
        self.known += message["programs"]
        return {"programs": list(range(first, len(self.known)))}

    def run(self, message: dict[str, Any]) -> dict[str, Any]:
        for program, inputs, outputs in message["calls"]:
            self._call(program, inputs, outputs)
        return {}

    def time(self, message: dict[str, Any]) -> dict[str, Any]:
        for sample in message["samples"]:
            if sample["renew"] and self.stateful:
                self.state.clear()
            self.batches.append(len(sample["cold"]))
            for inputs, outputs in [*sample["cold"], *sample["warm"]]:
                self._call(sample["program"], inputs, outputs)
        return {"times": [[self.us] * (2 if sample["warm"] else 1) for sample in message["samples"]]}

    def unload(self, message: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _call(self, program: int, inputs: int, outputs: int) -> None:
        (launch,) = self.known[program]["launches"]
        (_, a), (_, b), (_, c), (_, n) = launch["args"]
        call = Call(self.slab(), inputs + a, inputs + b, outputs + c, n)
        self.body(call, self.state)
        self.spoils(call, self.of_baseline[program])


class FakeLane:
    """A lane whose oracle runs on numpy and whose launcher runs `body`."""

    kind, lane, launch_mode, device, device_id, ordinal = "cuda", "device-only", "stream", "cuda:0", "GPU-fake", 0
    slab_limit = 1 << 24
    clock_cost = ClockCost(0.0, 0.0, 0.0)
    description: dict[str, Any] = {}  # noqa: RUF012  one lane a test
    constants = {"WARP": 32, "SM_COUNT": 4, "SMEM_MAX": 49152}  # noqa: RUF012

    def __init__(self, fake: FakeCupy, body: Body, us: float, stateful: bool) -> None:
        self.fake, self._oracle, self._bytes, self._base = fake, Oracle(0), 0, 0
        self._oracle.equip({"cubin": "oracle.cubin", "kernels": fake.kernels})
        self.fake_launcher = FakeLauncher(self._memory, body, us, stateful)
        self.monitor = SimpleNamespace(read=dict)
        self.prepared: dict[str, Any] = {}
        self.stateful = stateful

    def _memory(self) -> np.ndarray:
        slab = self.fake.runtime.slabs[self._base]
        return slab[self._base - slab.ctypes.data :]

    def get_ready(self, cancelled: Any) -> None: ...

    def begin(self, task: Any) -> None:
        self.ask_oracle("begin", task_id=task.id, task=task.model_dump(mode="json"), keep=None)

    def ask_oracle(self, verb: str, **fields: Any) -> dict[str, Any]:
        return dict(getattr(self._oracle, verb)(fields))

    def reserve(self, size: int) -> None:
        if size > self._bytes:
            self._bytes = 2 * size
            self._base = int.from_bytes(bytes.fromhex(self.ask_oracle("reserve", bytes=2 * size)["handle"]), "little")

    def launcher(self) -> FakeLauncher:
        self.reserve(1 << 16)
        return self.fake_launcher

    fresh_launcher = launcher

    def alone(self) -> AbstractContextManager[None]:
        return nullcontext()

    def compile(self, kernel: Kernel, *rest: object) -> Build:
        labels = ("stateful",) if self.stateful else ()
        binary = BASELINE_CUBIN if kernel.id == "k_baseline" else Path(__file__)
        return Build(binary, Facts(ok=True, labels=labels), {launch.entry: "k" for launch in kernel.launches})

    def session(self, task: Any, *, call_deadline_s: float, cancelled: Callable[[], bool]) -> CudaSession:
        return CudaSession(self, task, call_deadline_s, cancelled)  # type: ignore[arg-type]

    def floor_us(self, task: object, case: object) -> None:
        return None

    def end_session(self, *, clean: bool) -> None:
        pass


@pytest.fixture(params=["first of its task", "task known"])
def measured(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., tuple[Measurement, FakeLauncher]]]:
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    path = builtin_kernel("vector_add", "cuda", "seed")
    assert path is not None
    kernel = load_file(path, Asked()).kernel

    def run(body: Body, *, us: float = 100.0, stateful: bool = False) -> tuple[Measurement, FakeLauncher]:
        lane = FakeLane(fake, body, us, stateful)
        if request.param == "task known":
            lane.prepared[TASK.id] = Prepared("k_before", (100.0,))
        found = measure(Job(TASK, kernel, None, "quick"), lane, device_lock=nullcontext)  # type: ignore[arg-type]
        return found, lane.fake_launcher

    yield run


def honest(call: Call, state: State) -> None:
    call.c[:] = call.a + call.b


def with_counter(call: Call, state: State) -> None:
    state["calls"] = state.get("calls", 0) + 1
    honest(call, state)


def ahead(call: Call, state: State) -> None:
    """As batch_and_skip.cu: from the distance of the last two calls' slots, the next two are computed as well."""
    before = state.get("last")
    if not np.array_equal(call.c, call.a + call.b):
        honest(call, state)
        if before is not None and before.n == call.n and call.a_at > before.a_at:
            step_a, step_c = call.a_at - before.a_at, call.c_at - before.c_at
            for k in (1, 2):
                if max(call.a_at, call.b_at, call.c_at) + k * max(step_a, step_c) + 4 * call.n < len(call.memory):
                    at = (call.a_at + k * step_a, call.b_at + k * step_a, call.c_at + k * step_c)
                    honest(Call(call.memory, *at, call.n), state)
    state["last"] = call


def everything_ahead(call: Call, state: State) -> None:
    """Without device variables: wherever poison lies behind two inputs, it computes. Slots are 256-byte aligned.

    Only at the timed size: among the small cases are inputs of NaN, which it would take for poison and be found by.
    """
    honest(call, state)
    if call.n != N:
        return
    gap_b, gap_c = call.b_at - call.a_at, call.c_at - call.a_at
    for at in range(0, len(call.memory) - gap_c - 4 * call.n, 256):
        other = Call(call.memory, at, at + gap_b, at + gap_c, call.n)
        if np.isnan(other.c).all() and np.isfinite(other.a).all() and np.isfinite(other.b).all() and other.a.any():
            honest(other, state)


def by_fingerprint(call: Call, state: State) -> None:
    key = (call.n, float(call.a[0]), float(call.b[-1]))
    if key in state:
        call.c[:] = state[key]
    else:
        honest(call, state)
        state[key] = call.c.copy()


def by_whole_contents(call: Call, state: State) -> None:
    """A kernel that reads all of its inputs to know them again; with its variables set back it never does."""
    key = (call.a.tobytes(), call.b.tobytes())
    state["hits"] = state.get("hits", 0) + (key in state)
    state[key] = state[key] if key in state else call.a + call.b
    call.c[:] = state[key]


def by_pointer(call: Call, state: State) -> None:
    call.c[:] = state.setdefault((call.a_at, call.n), call.a + call.b)


def keeps_in_inputs(call: Call, state: State) -> None:
    """Right, and then the inputs of a call that is over become a store."""
    honest(call, state)
    state["calls"] = state.get("calls", 0) + 1
    if state["calls"] > 2 * len(TASK.checked) + 3:
        call.a[:] = call.c


def half_later(call: Call, state: State) -> None:
    state["calls"] = state.get("calls", 0) + 1
    honest(call, state)
    if state["calls"] > 2 * len(TASK.checked) + 3:
        call.c[call.n // 2 :] = np.nan


@pytest.mark.parametrize("body", [honest, with_counter])
@pytest.mark.parametrize("us", [3.0, 100.0])
def test_an_honest_kernel_is_ok(body: Body, us: float, measured: Any) -> None:
    for stateful in (False, True):
        found, launcher = measured(body, us=us, stateful=stateful)
        assert (found.verdict, found.reason) == ("ok", "")
        assert found.time_us == pytest.approx(us)
        assert max(launcher.batches) == (1 if stateful or us > 30 else 20)


@pytest.mark.parametrize("body", [ahead, by_fingerprint, by_pointer])
def test_what_looks_ahead_or_keeps_answers_in_its_variables_is_found(body: Body, measured: Any) -> None:
    for stateful in (False, True):  # found before anything is timed, whether the compiler named the variables or not
        found, _ = measured(body, stateful=stateful)
        assert found.verdict == "incorrect"
        assert found.reason


@pytest.mark.parametrize("body", [half_later, keeps_in_inputs])
def test_what_changes_its_ways_while_it_is_timed_is_found(body: Body, measured: Any) -> None:
    found, _ = measured(body)
    assert found.verdict == "incorrect"
    assert "timed call" in found.reason


@pytest.mark.parametrize("us", [3.0, 100.0])
def test_slots_of_no_call_give_away_what_computes_all_it_finds(us: float, measured: Any) -> None:
    found, _ = measured(everything_ahead, us=us)
    assert found.verdict == "incorrect"
    assert "another call" in found.reason


def test_with_its_variables_set_back_a_kernel_never_knows_contents_again(measured: Any) -> None:
    found, launcher = measured(by_whole_contents, us=3.0, stateful=True)
    assert found.verdict == "ok"
    assert launcher.state["hits"] <= 1  # the warm call after the cold one


def measured_in_turn(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[FakeLane, int], None], body: Body = honest, count: int = 2
) -> list[Measurement]:
    """Different kernels against one baseline; change: told the lane and the number before each."""
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    path = builtin_kernel("vector_add", "cuda", "seed")
    assert path is not None
    kernel = load_file(path, Asked()).kernel
    lane = FakeLane(fake, body, 100.0, stateful=False)
    baseline = kernel.model_copy(update={"id": "k_baseline"})
    checked: set[str] = set()
    found = []
    for number in range(count):
        change(lane, number)
        lane.begin(TASK)
        job = Job(TASK, kernel.model_copy(update={"id": f"k_{number}"}), baseline, "quick")
        found.append(measure(job, lane, device_lock=nullcontext, checked_before=checked))  # type: ignore[arg-type]
    return found


def test_against_a_baseline_that_is_known_all_is_loaded_at_once_and_timed_in_two_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a batch asks of the device for each kernel: loading, two rounds of calls with the timed cases rehearsed in
    the second, the blocks.
    """
    asked: list[list[str]] = []

    def watch(lane: FakeLane, number: int) -> None:
        lane.fake_launcher.asked = []
        asked.append(lane.fake_launcher.asked)

    for found in measured_in_turn(monkeypatch, watch):
        assert found.verdict == "ok", found.reason
        assert found.log2_speedup == pytest.approx(0.0)
    assert asked[1] == ["load", "run", "time", "run", "time"]


def test_a_known_baseline_that_can_no_longer_be_loaded_is_not_the_candidate_s_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(lane: FakeLane, number: int) -> None:
        lane.fake_launcher.refused = {str(BASELINE_CUBIN)} if number else set()

    with pytest.raises(InputError, match="the baseline is no measure"):
        measured_in_turn(monkeypatch, refuse)


def test_a_candidate_that_cannot_be_loaded_is_its_own_fault_beside_a_known_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(lane: FakeLane, number: int) -> None:
        lane.fake_launcher.refused = {str(Path(__file__))} if number else set()

    first, second = measured_in_turn(monkeypatch, refuse)
    assert (first.verdict, second.verdict) == ("ok", "launch_error")


def test_a_cubin_that_is_gone_is_nobody_s_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys.modules[__name__], "BASELINE_CUBIN", tmp_path / "gone.cubin")
    with pytest.raises(DeviceError, match="gone from the cache"):
        measured_in_turn(monkeypatch, lambda lane, number: None)


@pytest.mark.parametrize("known", [False, True])
def test_a_number_of_calls_that_a_kernel_forged_names_a_case(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(lane: FakeLane, number: int) -> None:
        if number == int(known):
            told = {"fault": "CUDA_ERROR_ILLEGAL_ADDRESS", "text": "an illegal address", "call": 4_000_000_000}
            lane.fake_launcher.run = lambda message: told  # type: ignore[method-assign]
            lane.fake_launcher.output = lambda: ""  # type: ignore[attr-defined]

    found = measured_in_turn(monkeypatch, fault, count=1 + int(known))[-1]
    assert found.verdict == "crashed"
    assert TASK.checked[-1].name in found.reason


def test_both_rounds_of_checking_have_the_same_addresses_however_much_room_the_rehearsal_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kernel that computes once for an address answers the second round with what it knows from the first."""
    known: dict[tuple[int, int], np.ndarray] = {}

    def once(call: Call, state: State) -> None:
        at = (call.memory.ctypes.data + call.a_at, call.n)
        call.c[:] = known.setdefault(at, call.a + call.b)

    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    path = builtin_kernel("vector_add", "cuda", "seed")
    assert path is not None
    large = TASK.model_copy(update={"timed": {"cuda": (Case(sizes={"N": 1 << 16}),)}})
    lane = FakeLane(fake, once, 100.0, stateful=True)

    def reserve(size: int) -> None:  # no more than is asked for
        if size > lane._bytes:
            lane._bytes = size
            handle = lane.ask_oracle("reserve", bytes=size)["handle"]
            lane._base = int.from_bytes(bytes.fromhex(handle), "little")

    lane.reserve = reserve  # type: ignore[method-assign]
    lane.prepared[large.id] = Prepared("k_before", (100.0,))
    job = Job(large, load_file(path, Asked()).kernel, None, "quick")
    assert measure(job, lane, device_lock=nullcontext).verdict == "incorrect"  # type: ignore[arg-type]


@pytest.mark.parametrize("known", [False, True], ids=["first of its task", "task known"])
def test_a_call_that_does_the_work_of_those_rehearsed_after_it_does_not_pass_for_short(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 ms of work a call, 4 us where the answer is there already. Poison tells this kernel where slots lie."""
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    path = builtin_kernel("vector_add", "cuda", "seed")
    assert path is not None
    took = [0.0]

    def ahead_of_time(call: Call, state: State) -> None:
        if call.n == N and np.array_equal(call.c, call.a + call.b):
            took[0] = 4.0
            return
        honest(call, state)
        took[0] = 2000.0 if call.n == N else 4.0
        gap_b = (-(-4 * N // 256) + 1) * 256
        at_c = 2 * gap_b + 256
        for at in range(0, len(call.memory) - at_c - 4 * N, 256):
            other = Call(call.memory, at, at + gap_b, at + at_c, N)
            inputs = (other.a, other.b)
            if np.isnan(other.c).all() and all(np.isfinite(one).all() and one.any() for one in inputs):
                honest(other, state)

    lane = FakeLane(fake, ahead_of_time, 1.0, stateful=False)
    launcher = lane.fake_launcher

    def time(message: dict[str, Any]) -> dict[str, Any]:
        times = []
        for sample in message["samples"]:
            launcher.batches.append(len(sample["cold"]))
            row = []
            for slots in (sample["cold"], sample["warm"]):
                spent = 0.0
                for inputs, outputs in slots:
                    launcher._call(sample["program"], inputs, outputs)
                    spent += took[0]
                row += [spent / len(slots)] if slots else []
            times.append(row)
        return {"times": times}

    launcher.time = time  # type: ignore[method-assign]
    if known:
        lane.prepared[TASK.id] = Prepared("k_before", (100.0,))
    job = Job(TASK, load_file(path, Asked()).kernel, None, "quick")
    found = measure(job, lane, device_lock=nullcontext)  # type: ignore[arg-type]
    assert max(launcher.batches) == 1, "one launch a sample, as befits 2 ms"
    assert found.verdict == "incorrect"
    assert "another call" in found.reason


@pytest.mark.parametrize("alone", [False, True], ids=["the candidate's doing", "wrong by itself"])
def test_a_baseline_that_is_wrong_in_a_block_is_looked_at_alone(alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [0]
    lanes: list[FakeLane] = []

    def change(lane: FakeLane, number: int) -> None:
        lanes.append(lane)
        if number == 0:
            return

        def spoil(call: Call, baseline: bool) -> None:
            if baseline and call.n == N:
                calls[0] += 1
                both = lanes[0].fake_launcher.asked.count("load") == loads
                if both or (alone and calls[0] % 7 == 0):
                    call.c[0] = 12345.0

        loads = lane.fake_launcher.asked.count("load") + 1  # as long as the candidate is loaded beside it
        lane.fake_launcher.spoils = spoil

    if alone:
        with pytest.raises(InputError, match="wrong now and then"):
            measured_in_turn(monkeypatch, change)
    else:
        _, found = measured_in_turn(monkeypatch, change)
        assert found.verdict == "incorrect"
        assert "the baseline, which is right alone, was overwritten" in found.reason
    assert calls[0] > 16, "it was called in a block, and again"
