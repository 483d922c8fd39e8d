"""The oracle's part of a CUDA measurement, on a stand-in for cupy: what it fills, and what it finds. No GPU needed."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from fake_cupy import Array, FakeCupy

from kforecast.bench.correctness import place
from kforecast.bench.devices.cuda.guards import NEAR_SET, Guards
from kforecast.bench.devices.cuda.judging import Oracle
from kforecast.bench.devices.cuda.layout import Layout, Slab, lay_out
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.bench.tasks.dtypes import item_bytes, numpy_dtype
from kforecast.bench.tasks.reference import load_reference
from kforecast.store.models import Case, Task


class Device:
    """An oracle, the slab it shares, and a 'kernel' that a test writes in numpy."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, task: Task) -> None:
        fake = FakeCupy()
        monkeypatch.setitem(sys.modules, "cupy", fake)
        self.task = task
        self.fake = fake
        self.oracle = Oracle(0)
        self.oracle.equip({"cubin": "oracle.cubin", "kernels": fake.kernels})
        handle = self.oracle.reserve({"bytes": 1 << 22})["handle"]
        self.base = int.from_bytes(bytes.fromhex(handle), "little")
        self.begin()

    def begin(self, keep: str | None = None) -> None:
        self.oracle.begin({"task_id": self.task.id, "task": self.task.model_dump(mode="json"), "keep": keep})

    def place(self, kind: str, sets: list[int], case: int = 0) -> tuple[list[Layout], list[dict[str, Any]]]:
        layout = lay_out(self.task, self.case(kind, case), {}, {})
        slab = Slab()
        jobs = []
        for number in sets:
            where = {"in": slab.take(layout.input_bytes), "out": slab.take(layout.output_bytes)}
            jobs.append({"kind": kind, "case": case, "set": number, "layout": 0, **where})
        assert slab.end <= 1 << 22
        return [layout], jobs

    def case(self, kind: str, index: int) -> Case:
        return (self.task.checked if kind == "checked" else self.task.timed_on("cuda"))[index]

    def memory(self, offset: int, size: int) -> np.ndarray:
        slab = self.fake.runtime.slabs[self.base]
        start = self.base - slab.ctypes.data + offset
        return slab[start : start + size]

    def tensor(self, layout: Layout, job: dict[str, Any], name: str) -> np.ndarray:
        offset, size = (layout.inputs | layout.outputs)[name]
        base = job["in"] if name in layout.inputs else job["out"]
        dtype = self.task.tensor(name).dtype
        return self.memory(base + offset, size).view(numpy_dtype(dtype))

    def answer_right(self, layout: Layout, job: dict[str, Any]) -> None:
        """What a right kernel does: the reference on the inputs that lie in the slab."""
        case = self.case(job["kind"], job["case"])
        shapes = {t.name: tuple(case.sizes.get(text, 0) or int(text) for text in t.shape) for t in self.task.tensors}
        inputs = {name: self.tensor(layout, job, name).reshape(shapes[name]) for name in layout.inputs}
        for name, value in load_reference(self.task).compute(np, inputs, case.sizes).items():
            self.tensor(layout, job, name)[:] = np.asarray(value).reshape(-1)

    def fill(self, layouts: list[Layout], jobs: list[dict[str, Any]]) -> None:
        self.oracle.fill({"layouts": [layout.as_message() for layout in layouts], "jobs": jobs})

    def check(
        self, layouts: list[Layout], jobs: list[dict[str, Any]], *, inputs: bool = True, kernel: str = "k_1"
    ) -> list[Any]:
        return list(self.checked(layouts, jobs, Guards(), inputs=inputs, kernel=kernel)["answers"])

    def checked(
        self, layouts: list[Layout], jobs: list[dict[str, Any]], guards: Guards, *, inputs: bool, kernel: str = "k_1"
    ) -> dict[str, Any]:
        messages = [layout.as_message() for layout in layouts]
        message = {"layouts": messages, "sides": [[kernel, jobs]], "inputs": inputs}
        return self.oracle.check({**message, "guards": guards.as_message()})


def small(name: str) -> Task:
    """A built-in task whose timed case is as small as a checked one."""
    task = builtin_task(name)
    return task.model_copy(update={"timed": {"cuda": (task.checked[1],)}})


@pytest.fixture(params=["softmax_rows", "transpose", "argmax_rows", "sum_all"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Device:
    return Device(monkeypatch, small(request.param))


@pytest.fixture(params=["host", "device"], autouse=True)
def where_answers_are_computed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small cases on the host, large ones on the device: here all of them on either."""
    monkeypatch.setattr(place, "HOST_BYTES", 1 << 40 if request.param == "host" else 0)


@pytest.mark.parametrize("kind", ["checked", "timed"])
def test_right_outputs_pass_and_differing_contents_differ(device: Device, kind: str) -> None:
    layouts, jobs = device.place(kind, [0, 1], case=0)
    device.fill(layouts, jobs)
    first, second = ([device.tensor(layouts[0], job, name).copy() for name in layouts[0].inputs] for job in jobs)
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    for job in jobs:
        device.answer_right(layouts[0], job)
    assert device.check(layouts, jobs) == [None, None]


def test_outputs_are_poisoned_and_an_unwritten_one_is_found(device: Device) -> None:
    layouts, jobs = device.place("checked", [0], case=1)
    device.fill(layouts, jobs)
    (answer,) = device.check(layouts, jobs)
    assert "never written" in answer["mismatch"]["explanation"]


def test_one_wrong_element_is_named(device: Device) -> None:
    layouts, jobs = device.place("checked", [0], case=1)
    device.fill(layouts, jobs)
    device.answer_right(layouts[0], jobs[0])
    (name,) = layouts[0].outputs
    output = device.tensor(layouts[0], jobs[0], name)
    output[-1] += 1 + abs(output[-1])
    (answer,) = device.check(layouts, jobs)
    assert answer["mismatch"]["wrong"] == 1
    assert answer["mismatch"]["tensor"] == name


def test_a_write_past_the_end_is_found_and_says_where(device: Device) -> None:
    layouts, jobs = device.place("checked", [0], case=1)
    device.fill(layouts, jobs)
    device.answer_right(layouts[0], jobs[0])
    ((name, (offset, size)),) = layouts[0].outputs.items()
    device.memory(jobs[0]["out"] + offset + size, 4)[:] = 0
    (answer,) = device.check(layouts, jobs)
    assert f"past the end of {name}" in answer["overrun"]


def test_a_write_to_an_input_is_found_where_it_is_looked_for(device: Device) -> None:
    layouts, jobs = device.place("checked", [0], case=1)
    device.fill(layouts, jobs)
    device.answer_right(layouts[0], jobs[0])
    name = next(iter(layouts[0].inputs))
    device.tensor(layouts[0], jobs[0], name).view(np.uint8)[0] ^= 0xFF
    (answer,) = device.check(layouts, jobs)
    assert answer == {"overrun": f"wrote to {name}, which is an input (case {device.task.checked[1].name})"}
    assert device.check(layouts, jobs, inputs=False) == [None]


def test_a_later_output_is_held_against_the_verified_one_and_then_against_the_gate(device: Device) -> None:
    layouts, jobs = device.place("timed", [0, 0], case=0)
    device.fill(layouts, jobs)
    device.answer_right(layouts[0], jobs[0])
    assert device.check(layouts, jobs[:1]) == [None]
    assert device.check(layouts, jobs[1:])[0] is not None  # poisoned: neither the same bits nor right
    device.answer_right(layouts[0], jobs[1])
    assert device.check(layouts, jobs[1:]) == [None]


def test_what_one_kernel_wrote_says_nothing_of_another_and_only_the_kept_one_outlives_a_measurement(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []
    gate = Oracle._queue

    def watched(self: Oracle, looks: Any, layouts: list[Any], jobs: dict[int, tuple[str, Any]]) -> list[Any]:
        judged.extend(kernel for kernel, _ in jobs.values())
        return gate(self, looks, layouts, jobs)

    monkeypatch.setattr(Oracle, "_queue", watched)
    layouts, jobs = device.place("timed", [0], case=0)

    def measure(kernel: str, keep: str | None) -> None:
        device.begin(keep)
        device.fill(layouts, jobs)
        device.answer_right(layouts[0], jobs[0])
        assert device.check(layouts, jobs, kernel=kernel) == [None]

    measure("k_baseline", None)
    measure("k_baseline", "k_baseline")
    assert judged == ["k_baseline"]
    measure("k_candidate", "k_baseline")
    measure("k_candidate", "k_baseline")
    assert judged == ["k_baseline", "k_candidate", "k_candidate"]
    measure("k_baseline", "k_baseline")
    assert len(judged) == 3


def test_two_kernels_are_judged_in_one_message_each_by_what_it_wrote_itself(device: Device) -> None:
    layouts, jobs = device.place("timed", [0, 1, 0, 1], case=0)
    device.fill(layouts, jobs)
    for job in jobs[:3]:
        device.answer_right(layouts[0], job)
    message = {"layouts": [layout.as_message() for layout in layouts], "inputs": False}
    sides = [["k_candidate", jobs[:2]], ["k_baseline", jobs[2:]]]
    found = device.oracle.check({**message, "sides": sides, "guards": Guards().as_message()})
    assert [answer is None for answer in found["answers"]] == [True, True, True, False]
    # The other side's right answers for the same contents do not vouch for it.
    device.answer_right(layouts[0], jobs[3])
    for side in sides:
        device.tensor(layouts[0], side[1][1], next(iter(layouts[0].outputs)))[:] = 3
    found = device.oracle.check({**message, "sides": sides, "guards": Guards().as_message()})
    assert [answer is None for answer in found["answers"][:2]] == [True, False]
    found = device.oracle.check({**message, "sides": sides[1:], "guards": Guards().as_message()})
    assert [answer is None for answer in found["answers"]] == [True, False]


def test_of_several_wrong_outputs_the_first_gets_its_words(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    layouts, jobs = device.place("timed", [0, 1, 0], case=0)
    device.fill(layouts, jobs)
    device.answer_right(layouts[0], jobs[0])
    worded: list[Any] = []
    words = Oracle._words

    def counted(self: Oracle, *arguments: Any) -> Any:
        worded.append(arguments)
        return words(self, *arguments)

    monkeypatch.setattr(Oracle, "_words", counted)
    first, second, _ = device.check(layouts, jobs)
    assert first is None
    assert second is not None
    assert len(worded) == 1


def test_a_check_waits_for_the_device_once(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    layouts, jobs = device.place("checked", [0, 1], case=1)
    device.fill(layouts, jobs)
    for job in jobs:
        device.answer_right(layouts[0], job)
    device.check(layouts, jobs)  # golden values are there now
    waits: list[int] = []
    get = Array.get

    def counted(array: Array) -> np.ndarray:
        waits.append(array.nbytes)
        return get(array)

    monkeypatch.setattr(Array, "get", counted)
    assert device.check(layouts, jobs) == [None, None]
    assert len(waits) == 1


def test_contents_of_other_tasks_go_when_memory_is_short_and_the_task_s_own_stay(device: Device) -> None:
    layouts, jobs = device.place("checked", [0], case=1)
    device.fill(layouts, jobs)
    name = next(iter(layouts[0].inputs))
    before = device.tensor(layouts[0], jobs[0], name).copy()
    other = small("vector_add")
    for used_bytes, same in ((0, True), (1 << 36, False)):
        device.fake.used_bytes = used_bytes
        device.oracle.begin({"task_id": other.id, "task": other.model_dump(mode="json"), "keep": None})
        device.oracle.fill({"layouts": [], "jobs": []})
        device.begin()
        device.fill(layouts, jobs)
        assert np.array_equal(before, device.tensor(layouts[0], jobs[0], name)) == same
    again = device.tensor(layouts[0], jobs[0], name).copy()
    device.begin()
    device.fill(layouts, jobs)
    assert np.array_equal(again, device.tensor(layouts[0], jobs[0], name))


def test_free_memory_is_given_back_only_when_there_is_too_much_of_it(device: Device) -> None:
    layouts, jobs = device.place("checked", [0], case=1)
    device.fake.given_back.clear()
    for total_bytes in (1 << 33, 1 << 34):  # of 32 GiB, three tenths are for contents
        device.fake.total_bytes = total_bytes
        device.begin()
        device.fill(layouts, jobs)
    assert device.fake.given_back == [1 << 34]


def test_renewed_after_many_measurements(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    layouts, jobs = device.place("checked", [0], case=1)
    device.fill(layouts, jobs)
    name = next(iter(layouts[0].inputs))
    before = device.tensor(layouts[0], jobs[0], name).copy()
    for _ in range(65):
        device.begin()
    device.fill(layouts, jobs)
    assert not np.array_equal(before, device.tensor(layouts[0], jobs[0], name))


def test_scratch_is_poisoned_and_the_slab_may_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch, small("vector_add"))
    layouts, jobs = device.place("checked", [0], case=1)
    layouts[0].scratch["candidate", "w"] = (layouts[0].output_bytes, 64, "f32")
    jobs[0]["out"] += 0
    device.fill(layouts, jobs)
    scratch = device.memory(jobs[0]["out"] + layouts[0].output_bytes, 64).view(np.float32)
    assert np.isnan(scratch).all()
    assert item_bytes("f32") == 4
    second = device.oracle.reserve({"bytes": 1 << 23})["handle"]
    assert second
    assert len(device.fake.runtime.slabs) == 1


@pytest.mark.parametrize("name", ["vector_add", "histogram", "embedding"])
def test_a_slot_that_no_call_was_given_must_stay_as_it_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch, small(name))
    layouts, (called, free) = device.place("timed", [0, 1])
    device.fill(layouts, [called, free])
    device.answer_right(layouts[0], called)
    guards = Guards(decoys=[free])
    assert device.checked(layouts, [called], guards, inputs=False) == {"answers": [None], "guard": None}
    device.answer_right(layouts[0], free)
    assert "another call" in device.checked(layouts, [called], guards, inputs=False)["guard"]


def test_memory_of_a_call_that_is_over_cannot_keep_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch, small("vector_add"))
    layouts, jobs = device.place("timed", [0, 1])
    device.fill(layouts, jobs)
    for job in jobs:
        device.answer_right(layouts[0], job)
    guards = Guards()
    guards.probe(jobs, np.random.default_rng(0))
    assert len(guards.probed) == 1
    assert device.checked(layouts, jobs, guards, inputs=False)["guard"] is None
    device.tensor(layouts[0], guards.probed[0], "b")[0] += 1
    assert "wrote to b" in device.checked(layouts, jobs, guards, inputs=False)["guard"]


@pytest.mark.parametrize("name", ["vector_add", "softmax_rows", "gemm_bf16", "embedding", "argmax_rows", "sum_all"])
def test_two_of_the_timed_contents_differ_in_one_stretch_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = small(name)
    case = Case(sizes=dict.fromkeys(task.size_names, 64))
    device = Device(monkeypatch, task.model_copy(update={"timed": {"cuda": (case,)}}))
    layouts, jobs = device.place("timed", [NEAR_SET - 2, NEAR_SET - 1, NEAR_SET])
    device.fill(layouts, jobs)
    for tensor in layouts[0].inputs:
        other, before, near = (device.tensor(layouts[0], job, tensor).view(np.uint8) for job in jobs)
        assert (before == near).mean() >= 0.8 or before.size < 256
        assert not np.array_equal(other, before)
    for job in jobs:
        device.answer_right(layouts[0], job)
    assert device.check(layouts, jobs) == [None, None, None]
