"""The oracle process: makes inputs, poisons outputs, knows the answers, judges. Trusted; idle while anything is timed.

Started as `python -m kforecast.bench.devices.cuda.oracle FD ORDINAL SHARERS`. It owns the memory that the launcher
maps (the *slab*); pristine inputs, golden values and everything else stay in memory of its own, which the launcher's
context cannot address. SHARERS oracles in all may divide the device's memory.

    equip {cubin, kernels}   load the oracle's own kernels, before anything else
    reserve {bytes}          (re)allocate the slab -> {handle}
    begin {task_id, task, keep}  a new measurement on this task (null: told before): forget what other kernels than
                             `keep` computed. Nothing runs on the device for it
    fill {layouts, jobs}     inputs into place, outputs and scratch poisoned, red zones written
    check {layouts, sides, inputs, guards}  -> {answers, guard}: for the jobs of all sides, each [kernel, jobs], null or
                             what is wrong with what that kernel wrote; `inputs`: look at them too; guard: as much for
                             the slots of no call and the calls whose inputs are looked at again
    memory {}                -> {free, total} bytes of the device

A job is {kind, case, set, layout, in, out}: contents number `set` of checked or timed case number `case`, its inputs
at offset `in` of the slab (null: they are there already), what the kernel writes at `out`, arranged as
`layouts[layout]` says.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from ....store.models import Mismatch, Task
from ...correctness.compare import ExactExpectation, FloatExpectation
from ...correctness.gate import Expectation, expect
from ...correctness.place import on_host
from ...correctness.poison import poison_bits
from ...tasks.dtypes import carrier_dtype, item_bytes, numpy_dtype
from ...tasks.inputs import make_inputs
from ...tasks.shapes import output_tensors, shape_of
from .channel import Channel, ChannelClosed
from .guards import NEAR_SET, nearly, poisoned_rows
from .rounds import Round, Row, judge_arguments

RENEW_AFTER = 64
"""Measurements that may draw on the same secret contents before fresh ones are made. A kernel cannot carry what it
saw from one measurement to the next: its module is gone and its memory is overwritten."""
RED_WORD = 0xA5A5A5A5A5A5A5A5
_KEEP_SHARE, _KEEP_SHARE_OF_ALL = 0.3, 0.45
"""Of the device's memory, for contents that may be needed again: of one oracle; of several in all, as each has its own
of the same tasks.
"""

Key = tuple[str, str, int, int]
Where = TypeVar("Where")


@dataclass
class _Contents:
    """One secret content of one case: inputs, and once somebody's outputs were taken, the answers; `verified`: outputs
    that passed the gate, by kernel.
    """

    inputs: dict[str, Any]
    uses: int = 0
    expectation: Expectation | None = None
    verified: dict[str, dict[str, Any]] = field(default_factory=dict)

    def bytes(self) -> int:
        held = list(self.inputs.values()) + [a for side in self.verified.values() for a in side.values()]
        for expected in self.expectation.tensors if self.expectation is not None else ():
            held.append(expected.golden)  # a float's scale looks at the same memory
            if isinstance(expected, FloatExpectation):
                held += [expected.scale.row_rms, *([] if expected.scale.given is None else [expected.scale.given])]
        return int(sum(array.nbytes for array in held))


@dataclass
class _Judged:
    """A job whose outputs are judged: numbers of the round's questions about them."""

    index: int
    kernel: str
    job: dict[str, Any]
    contents: _Contents
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
        self._begun = False
        self._tasks: dict[str, Task] = {}
        self._task: Task | None = None
        self._task_id = ""
        self._contents: dict[Key, _Contents] = {}
        self._keep_share = _KEEP_SHARE if sharers == 1 else _KEEP_SHARE_OF_ALL / sharers
        self._sms = cupy.cuda.Device(ordinal).attributes["MultiProcessorCount"]
        _, self._memory_bytes = cupy.cuda.runtime.memGetInfo()

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
        self._task_id, keep = message["task_id"], message["keep"]
        if message["task"] is not None:
            self._tasks[self._task_id] = Task.model_validate(message["task"])
        self._task = self._tasks[self._task_id]
        for key, contents in list(self._contents.items()):
            contents.verified = {kernel: taken for kernel, taken in contents.verified.items() if kernel == keep}
            if key[0] == self._task_id:
                del self._contents[key]
                contents.uses += 1
                if contents.uses <= RENEW_AFTER:
                    self._contents[key] = contents  # at the end: it was used last
        self._begun = True
        return {}

    def fill(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._task is not None
        if self._begun:
            self._begun = False
            self._shrink()
        copies, fills = [], []
        for job in message["jobs"]:
            layout = message["layouts"][job["layout"]]
            base = self._slab + job["out"]
            contents = self._get(job)
            for tensor in self._task.tensors:
                if tensor.role == "out":
                    offset, size = layout["outputs"][tensor.name]
                    fills.append((base + offset, _word(tensor.dtype), size))
                    continue
                array = contents.inputs[tensor.name]
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
            text = f"wrote to {name}, which is an input (case {self._case(plain[index]).name})"
            answers[index] = answers[index] or {"overrun": text}
        other = sorted({index for index, _ in _those(looks, known) if answers[index] is None})
        again = self._round()
        judged_again = self._queue(again, layouts, {index: jobs[index] for index in other})
        again.end()
        for these, asked in ((judged, looks), (judged_again, again)):
            for item in these:
                answers[item.index] = answers[item.index] or self._verdict(item, asked)
        told = _those(looks, guard)
        self.cp.cuda.runtime.deviceSynchronize()  # an answer means: nothing of this runs any more
        return {"answers": answers, "guard": told[0] if told else None}

    def memory(self, message: dict[str, Any]) -> dict[str, Any]:
        free, total = self.cp.cuda.runtime.memGetInfo()
        return {"free": free, "total": total}

    # -- contents ------------------------------------------------------------------------------------------------

    def _case(self, job: dict[str, Any]) -> Any:
        assert self._task is not None
        cases = self._task.checked if job["kind"] == "checked" else self._task.timed_on("cuda")
        return cases[job["case"]]

    def _get(self, job: dict[str, Any]) -> _Contents:
        assert self._task is not None
        key = (self._task_id, job["kind"], job["case"], job["set"])
        contents = self._contents.get(key)
        if contents is None:
            inputs = self._make(job)
            contents = self._contents[key] = _Contents(inputs)
        return contents

    def _make(self, job: dict[str, Any]) -> dict[str, Any]:
        assert self._task is not None
        case = self._case(job)
        if job["kind"] == "timed" and job["set"] == NEAR_SET:
            before, other = (self._get({**job, "set": number}).inputs for number in (NEAR_SET - 1, NEAR_SET - 2))
            return nearly(self._task, case, before, other, np.random.default_rng(secrets.randbits(128)))
        if not on_host(self._task, case):
            return make_inputs(self._task, case, secrets.randbits(63), self.cp)
        inputs = make_inputs(self._task, case, secrets.randbits(63), np)
        return {name: _moved(self.cp, array) for name, array in inputs.items()}

    def _shrink(self) -> None:
        """Drop contents of other tasks, those not used for longest first, when all take more than their share."""
        pool = self.cp.get_default_memory_pool()
        excess = pool.used_bytes() - int(self._keep_share * self._memory_bytes)
        if excess <= 0:
            # Blocks stay in the pool: giving gigabytes back and asking again costs more than all of the judging.
            return
        for key in list(self._contents):
            if excess > 0 and key[0] != self._task_id:
                excess -= self._contents.pop(key).bytes()
        pool.free_all_blocks()

    # -- judging -------------------------------------------------------------------------------------------------

    def _red_rows(self, layouts: list[Any], jobs: list[dict[str, Any]]) -> list[tuple[tuple[int, Any], Row]]:
        """By job and red zone: the zone must still hold what it was filled with."""
        return [
            ((index, zone), (self._slab + job["out"] + zone[0], RED_WORD, zone[1], True))
            for index, job in enumerate(jobs)
            for zone in layouts[job["layout"]]["red"]
        ]

    def _guard_rows(self, layouts: list[Any], guards: dict[str, list[Any]]) -> list[tuple[str, Row]]:
        """By what is wrong where they differ: the slots of no call, and the inputs of calls that are over."""
        assert self._task is not None
        rows: list[tuple[str, Row]] = []
        for job in guards["decoys"]:
            text = f"wrote outside its tensors: into the outputs of another call (case {self._case(job).name})"
            found = poisoned_rows(self._task, layouts[job["layout"]], self._slab + job["out"], _word, RED_WORD)
            rows += [(text, (*row, True)) for row in found]
        for (index, name), row in self._input_rows(layouts, guards["probed"]):
            case = self._case(guards["probed"][index]).name
            rows.append((f"wrote to {name}, which is an input, in a timed call (case {case})", row))
        return rows

    def _overrun(self, layout: dict[str, Any], job: dict[str, Any], offset: int, size: int) -> dict[str, Any]:
        zone = self._view(self._slab + job["out"] + offset, (size,), np.dtype(np.uint8))
        at = int((zone != 0xA5).argmax())
        ends = {first + length: name for name, (first, length) in layout["outputs"].items()}
        owner = ends.get(offset)
        where = f"{at + 1} bytes past the end of {owner}" if owner else "between its buffers"
        return {"overrun": f"wrote outside its tensors: {where} (case {self._case(job).name})"}

    def _verified_rows(
        self, layouts: list[Any], jobs: Sequence[tuple[str, dict[str, Any]]]
    ) -> list[tuple[tuple[int, str], Row]]:
        """By job and output: what its kernel once wrote for the same contents, and passed the gate with."""
        rows = []
        for index, (kernel, job) in enumerate(jobs):
            places = layouts[job["layout"]]["outputs"]
            for name, array in self._get(job).verified.get(kernel, {}).items():
                row = (self._slab + job["out"] + places[name][0], array.data.ptr, array.nbytes, False)
                rows.append(((index, name), row))
        return rows

    def _input_rows(self, layouts: list[Any], jobs: list[dict[str, Any]]) -> list[tuple[tuple[int, str], Row]]:
        """By job and input: it must still be what it was."""
        rows = []
        for index, job in enumerate(jobs):
            contents = self._get(job)
            for name, (offset, _) in layouts[job["layout"]]["inputs"].items():
                array = contents.inputs[name]
                rows.append(((index, name), (self._slab + job["in"] + offset, array.data.ptr, array.nbytes, False)))
        return rows

    def _queue(self, looks: Round, layouts: list[Any], jobs: Mapping[int, tuple[str, dict[str, Any]]]) -> list[_Judged]:
        """The gate on every output of these jobs, by their numbers."""
        queued = []
        for index, (kernel, job) in jobs.items():
            outputs = self._take(layouts[job["layout"]], job)
            contents = self._get(job)
            if contents.expectation is None:
                contents.expectation = self._expect(job, contents)
            item = _Judged(index, kernel, job, contents, outputs)
            for expected in contents.expectation.tensors:
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
        assert item.contents.expectation is not None, "queued with one"
        if any(map(looks.differs, item.exact)) or any(map(looks.is_wrong, item.floats)):
            # The gate itself finds the words, and has the last one; on the host, where nothing is compiled for it.
            mismatch = self._words(item.contents.expectation, item.outputs)
            if mismatch is not None:
                return {"mismatch": mismatch.model_dump(mode="json")}
        if item.job["kind"] == "timed":
            item.contents.verified[item.kernel] = {name: array.copy() for name, array in item.outputs.items()}
        return None

    def _words(self, expectation: Expectation, outputs: dict[str, Any]) -> Mismatch | None:
        tensors = tuple(_on(np, expected) for expected in expectation.tensors)
        host = {name: self.cp.asnumpy(array) for name, array in outputs.items()}
        return replace(expectation, tensors=tensors, xp=np).check(host)

    def _expect(self, job: dict[str, Any], contents: _Contents) -> Expectation:
        assert self._task is not None
        case = self._case(job)
        if not on_host(self._task, case):
            return expect(self._task, case, contents.inputs, self.cp)
        found = expect(self._task, case, _host_inputs(self._task, contents.inputs))
        return replace(found, tensors=tuple(_on(self.cp, expected) for expected in found.tensors), xp=self.cp)

    def _take(self, layout: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
        """A job's outputs where they lie: the launcher is idle while they are judged."""
        assert self._task is not None
        case = self._case(job)
        return {
            tensor.name: self._view(
                self._slab + job["out"] + layout["outputs"][tensor.name][0],
                shape_of(tensor, case),
                carrier_dtype(tensor.dtype, self.cp),
            )
            for tensor in output_tensors(self._task)
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


def _on(xp: Any, expected: FloatExpectation | ExactExpectation) -> FloatExpectation | ExactExpectation:
    """The expectation with its arrays on numpy or cupy."""
    if isinstance(expected, ExactExpectation):
        return replace(expected, golden=_moved(xp, expected.golden))
    scale = expected.scale
    given = None if scale.given is None else _moved(xp, scale.given)
    moved = replace(scale, golden=_moved(xp, scale.golden), row_rms=_moved(xp, scale.row_rms), given=given)
    return replace(expected, golden=_moved(xp, expected.golden), scale=moved)


def _moved(xp: Any, array: Any) -> Any:
    """An array as numpy or cupy carries it; cupy has bf16 as raw bits."""
    if xp is not np:
        return xp.asarray(array.view(np.uint16) if array.dtype == numpy_dtype("bf16") else array)
    return array.get() if hasattr(array, "get") else array


def _host_inputs(task: Task, inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs as numpy carries them: bf16 as such, not as raw bits."""
    dtypes = {tensor.name: tensor.dtype for tensor in task.tensors}
    return {
        name: array.get().view(numpy_dtype("bf16")) if dtypes[name] == "bf16" else array.get()
        for name, array in inputs.items()
    }


def _word(dtype: str) -> int:
    """The poison of a dtype, repeated to 8 bytes."""
    size = item_bytes(dtype)
    return int.from_bytes(poison_bits(dtype).to_bytes(size, "little") * (8 // size), "little")


_VERBS = ("equip", "reserve", "begin", "fill", "check", "memory")


def serve(channel: Channel, ordinal: int, sharers: int) -> int:
    """Answer messages until the other end closes. Returns the exit code."""
    from ....store.errors import KforecastError

    oracle = Oracle(ordinal, sharers)
    channel.send({"ready": os.getpid()})
    while True:
        try:
            message = channel.receive()
        except ChannelClosed:
            return 0
        verb = message["verb"]
        assert verb in _VERBS, verb
        try:
            channel.send(getattr(oracle, verb)(message))
        except KforecastError as error:
            channel.send({"input_error": error.as_dict()})


def main() -> None:
    """Entry point of the process."""
    from ...processes import die_with_parent

    die_with_parent()
    # Reductions through CUB take cupy seconds to compile, each; its own take a tenth, and speed is no matter here.
    os.environ["CUPY_ACCELERATORS"] = ""
    fd, ordinal, sharers = map(int, sys.argv[1:])
    sys.exit(serve(Channel(socket.socket(fileno=fd)), ordinal, sharers))


if __name__ == "__main__":
    main()
