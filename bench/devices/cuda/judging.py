"""What the oracle does: put contents into place, and judge what kernels wrote. See `oracle` for the messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ....store.models import Mismatch
from ...correctness.compare import ExactExpectation, FloatExpectation
from ...correctness.gate import Expectation
from ...correctness.poison import poison_bits
from ...tasks.dtypes import carrier_dtype, item_bytes
from ...tasks.shapes import output_tensors, shape_of
from .contents import Contents, Job, to_host
from .guards import poisoned_rows
from .rounds import Round, Row, judge_arguments

RED_WORD = 0xA5A5A5A5A5A5A5A5

Where = TypeVar("Where")


@dataclass
class _Judged:
    """A job whose outputs are judged: numbers of the round's questions about them."""

    index: int
    kernel: str
    job: Job
    expectation: Expectation
    outputs: dict[str, Any]
    exact: list[int] = field(default_factory=list)
    floats: list[int] = field(default_factory=list)
    held: list[Any] = field(default_factory=list)
    """Copies that must live until the round has ended."""


class Oracle:
    """The process's state: the slab, tasks, contents."""

    def __init__(self, ordinal: int, sharers: int = 1) -> None:
        import cupy

        self.cp = cupy
        cupy.cuda.Device(ordinal).use()
        self._kernels: dict[str, Any] = {}
        self._slab = 0
        self._contents = Contents(cupy, sharers)
        self._sms = cupy.cuda.Device(ordinal).attributes["MultiProcessorCount"]

    # -- messages ------------------------------------------------------------------------------------------------

    def equip(self, message: dict[str, Any]) -> dict[str, Any]:
        module = self.cp.RawModule(path=message["cubin"])
        self._kernels = {name: module.get_function(name) for name in message["kernels"]}
        return {}

    def reserve(self, message: dict[str, Any]) -> dict[str, Any]:
        runtime = self.cp.cuda.runtime
        if self._slab:
            runtime.free(self._slab)
            self._slab = 0
        self.cp.get_default_memory_pool().free_all_blocks()
        try:
            self._slab = runtime.malloc(message["bytes"])
        except runtime.CUDARuntimeError as error:
            return {"error": f"cannot allocate {message['bytes']} bytes of device memory ({error})"}
        return {"handle": bytes(runtime.ipcGetMemHandle(self._slab)).hex()}

    def begin(self, message: dict[str, Any]) -> dict[str, Any]:
        self._contents.begin(message["task_id"], message["task"], message["keep"])
        return {}

    def fill(self, message: dict[str, Any]) -> dict[str, Any]:
        self._contents.make_room()
        copies, fills = [], []
        for job in message["jobs"]:
            layout = message["layouts"][job["layout"]]
            base = self._slab + job["out"]
            content = self._contents.of(job)
            for tensor in self._contents.task.tensors:
                if tensor.role == "out":
                    offset, size = layout["outputs"][tensor.name]
                    fills.append((base + offset, _word(tensor.dtype), size))
                    continue
                array = content.inputs[tensor.name]
                if tensor.role == "inout":
                    copies.append((base + layout["outputs"][tensor.name][0], array.data.ptr, array.nbytes))
                elif job["in"] is not None:
                    place = self._slab + job["in"] + layout["inputs"][tensor.name][0]
                    copies.append((place, array.data.ptr, array.nbytes))
            for offset, size, dtype in layout["scratch"]:
                fills.append((base + offset, _word(dtype), size))
            for offset, size in layout["red"]:
                fills.append((base + offset, RED_WORD, size))
        self._many("copy_many", copies)
        self._many("fill_many", fills)
        self.cp.cuda.runtime.deviceSynchronize()
        return {}

    def check(self, message: dict[str, Any]) -> dict[str, Any]:
        layouts = message["layouts"]
        jobs = [(kernel, job) for kernel, of_kernel in message["sides"] for job in of_kernel]
        plain = [job for _, job in jobs]
        looks = self._round()
        red = _asked(looks, self._red_rows(layouts, plain))
        inputs = _asked(looks, self._input_rows(layouts, plain) if message["inputs"] else [])
        known = _asked(looks, self._verified_rows(layouts, jobs))
        guard = _asked(looks, self._guard_rows(layouts, message["guards"]))
        unknown = set(range(len(jobs))) - {index for (index, _), _ in known}
        judged = self._queue(looks, layouts, {index: jobs[index] for index in sorted(unknown)})
        looks.end()
        answers: list[Any] = [None] * len(jobs)
        for index, zone in _those(looks, red):
            answers[index] = answers[index] or self._overrun(layouts[plain[index]["layout"]], plain[index], *zone)
        for index, name in _those(looks, inputs):
            text = f"wrote to {name}, which is an input (case {self._contents.case(plain[index]).name})"
            answers[index] = answers[index] or {"overrun": text}
        other = sorted({index for index, _ in _those(looks, known) if answers[index] is None})
        again = self._round()
        judged_again = self._queue(again, layouts, {index: jobs[index] for index in other})
        again.end()
        told = _those(looks, guard)
        both = [(item.index, item, looks) for item in judged] + [(item.index, item, again) for item in judged_again]
        for index, item, asked in sorted(both, key=lambda one: one[0]):
            if told or any(answers):
                break  # one thing is enough: words for outputs of millions of elements take a second
            answers[index] = self._verdict(item, asked)
        self.cp.cuda.runtime.deviceSynchronize()  # an answer means: nothing of this runs any more
        return {"answers": answers, "guard": told[0] if told else None}

    def memory(self, message: dict[str, Any]) -> dict[str, Any]:
        free, total = self.cp.cuda.runtime.memGetInfo()
        return {"free": free, "total": total}

    # -- judging -------------------------------------------------------------------------------------------------

    def _red_rows(self, layouts: list[Any], jobs: list[Job]) -> list[tuple[tuple[int, Any], Row]]:
        """By job and red zone: the zone must still hold what it was filled with."""
        return [
            ((index, zone), (self._slab + job["out"] + zone[0], RED_WORD, zone[1], True))
            for index, job in enumerate(jobs)
            for zone in layouts[job["layout"]]["red"]
        ]

    def _guard_rows(self, layouts: list[Any], guards: dict[str, list[Any]]) -> list[tuple[str, Row]]:
        """By what is wrong where they differ: the slots of no call, and the inputs of calls that are over."""
        rows: list[tuple[str, Row]] = []
        for job in guards["decoys"]:
            text = f"wrote outside its tensors: into the outputs of another call (case {self._contents.case(job).name})"
            found = poisoned_rows(self._contents.task, layouts[job["layout"]], self._slab + job["out"], _word, RED_WORD)
            rows += [(text, (*row, True)) for row in found]
        for (index, name), row in self._input_rows(layouts, guards["probed"]):
            case = self._contents.case(guards["probed"][index]).name
            rows.append((f"wrote to {name}, which is an input, in a timed call (case {case})", row))
        return rows

    def _overrun(self, layout: dict[str, Any], job: Job, offset: int, size: int) -> dict[str, Any]:
        zone = self._view(self._slab + job["out"] + offset, (size,), np.dtype(np.uint8))
        at = int((zone != 0xA5).argmax())
        ends = {first + length: name for name, (first, length) in layout["outputs"].items()}
        owner = ends.get(offset)
        where = f"{at + 1} bytes past the end of {owner}" if owner else "between its buffers"
        return {"overrun": f"wrote outside its tensors: {where} (case {self._contents.case(job).name})"}

    def _verified_rows(self, layouts: list[Any], jobs: Sequence[tuple[str, Job]]) -> list[tuple[tuple[int, str], Row]]:
        """By job and output: what its kernel once wrote for the same contents, and passed the gate with."""
        rows = []
        for index, (kernel, job) in enumerate(jobs):
            places = layouts[job["layout"]]["outputs"]
            for name, array in self._contents.of(job).verified.get(kernel, {}).items():
                row = (self._slab + job["out"] + places[name][0], array.data.ptr, array.nbytes, False)
                rows.append(((index, name), row))
        return rows

    def _input_rows(self, layouts: list[Any], jobs: list[Job]) -> list[tuple[tuple[int, str], Row]]:
        """By job and input: it must still be what it was."""
        rows = []
        for index, job in enumerate(jobs):
            content = self._contents.of(job)
            for name, (offset, _) in layouts[job["layout"]]["inputs"].items():
                array = content.inputs[name]
                rows.append(((index, name), (self._slab + job["in"] + offset, array.data.ptr, array.nbytes, False)))
        return rows

    def _queue(self, looks: Round, layouts: list[Any], jobs: Mapping[int, tuple[str, Job]]) -> list[_Judged]:
        """The gate on every output of these jobs, by their numbers."""
        queued = []
        for index, (kernel, job) in jobs.items():
            outputs = self._take(layouts[job["layout"]], job)
            expectation = self._contents.expectation(job)
            item = _Judged(index, kernel, job, expectation, outputs)
            for expected in expectation.tensors:
                got = outputs[expected.tensor.name]
                if isinstance(expected, ExactExpectation):
                    golden = self.cp.ascontiguousarray(expected.golden)
                    item.held.append(golden)
                    item.exact += looks.differ([(got.data.ptr, golden.data.ptr, golden.nbytes, False)])
                else:
                    item.floats.append(looks.judge(expected, got))
            queued.append(item)
        return queued

    def _verdict(self, item: _Judged, looks: Round) -> dict[str, Any] | None:
        if any(map(looks.differs, item.exact)) or any(map(looks.is_wrong, item.floats)):
            # The gate itself finds the words, and has the last one; on the host, where nothing is compiled for it.
            mismatch = self._words(item.expectation, item.outputs)
            if mismatch is not None:
                return {"mismatch": mismatch.model_dump(mode="json")}
        if item.job["kind"] == "timed":
            self._contents.of(item.job).verified[item.kernel] = {
                name: array.copy() for name, array in item.outputs.items()
            }
        return None

    def _words(self, expectation: Expectation, outputs: dict[str, Any]) -> Mismatch | None:
        return to_host(expectation).check({name: self.cp.asnumpy(array) for name, array in outputs.items()})

    def _take(self, layout: dict[str, Any], job: Job) -> dict[str, Any]:
        """A job's outputs where they lie: the launcher is idle while they are judged."""
        case = self._contents.case(job)
        return {
            tensor.name: self._view(
                self._slab + job["out"] + layout["outputs"][tensor.name][0],
                shape_of(tensor, case),
                carrier_dtype(tensor.dtype, self.cp),
            )
            for tensor in output_tensors(self._contents.task)
        }

    # -- parts ---------------------------------------------------------------------------------------------------

    def _view(self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = self.cp.cuda.UnownedMemory(pointer, size, self)
        return self.cp.ndarray(shape, dtype, memptr=self.cp.cuda.MemoryPointer(memory, 0))

    def _many(self, name: str, rows: Sequence[tuple[int, ...]], *extra: Any) -> None:
        """One launch over many jobs, a column of the rows an argument, in chunks that a grid's second dimension holds.

        The third column is the bytes of each job.
        """
        for start in range(0, len(rows), 32768):
            part = np.array(rows[start : start + 32768], dtype=np.uint64)
            columns = self.cp.asarray(np.ascontiguousarray(part.T))
            biggest = int(part[:, 2].max())
            blocks = max(1, min(-(-biggest // 16384), 4 * self._sms))
            tail = [argument[start : start + 32768] for argument in extra]
            self._kernels[name]((blocks, len(part)), (256,), (*columns, *tail))

    def _round(self) -> Round:
        return Round(self.cp, lambda rows, flags: self._many("differ_many", rows, flags), self._launch_judge)

    def _launch_judge(self, expected: FloatExpectation, got: Any, kind: Any, result: Any) -> None:
        blocks = min(-(-got.size // 256), 16 * self._sms)
        self._kernels["judge"]((blocks,), (256,), judge_arguments(expected, got, kind, result))


def _asked(looks: Round, rows: Sequence[tuple[Where, Row]]) -> list[tuple[Where, int]]:
    """Where each row is, and the number of its question."""
    return list(zip((where for where, _ in rows), looks.differ([row for _, row in rows]), strict=True))


def _those(looks: Round, asked: Sequence[tuple[Where, int]]) -> list[Where]:
    """Where something differed."""
    return [where for where, number in asked if looks.differs(number)]


def _word(dtype: str) -> int:
    """The poison of a dtype, repeated to 8 bytes."""
    size = item_bytes(dtype)
    return int.from_bytes(poison_bits(dtype).to_bytes(size, "little") * (8 // size), "little")
