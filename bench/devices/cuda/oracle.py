"""The oracle process: makes inputs, poisons outputs, knows the answers, judges. Trusted; idle while anything is timed.

Started as `python -m kforecast.bench.devices.cuda.oracle FD ORDINAL SHARERS`. It owns the memory that the launcher
maps (the *slab*); pristine inputs, golden values and everything else stay in memory of its own, which the launcher's
context cannot address. SHARERS oracles in all may divide the device's memory.

    reserve {bytes}          (re)allocate the slab -> {handle}
    begin {task_id, task, keep}  a new measurement on this task (null: told before): forget what other kernels than
                             `keep` computed
    fill {layouts, jobs}     inputs into place, outputs and scratch poisoned, red zones written
    check {layouts, kernel, jobs, inputs, guards}  -> {answers, guard}: per job null, or what is wrong with what this
                             kernel wrote; `inputs`: look at them too; guard: as much for the slots of no call and the
                             calls whose inputs are looked at again
    memory {}                -> {free, total} bytes of the device

A job is {kind, case, set, layout, in, out}: contents number `set` of checked or timed case number `case`, its inputs
at offset `in` of the slab (null: they are there already), what the kernel writes at `out`, arranged as
`layouts[layout]` says.
"""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any, TypeVar

import numpy as np

from ....store.models import Mismatch, Task
from ...correctness.compare import ExactExpectation, FloatExpectation
from ...correctness.gate import Expectation, expect
from ...correctness.norms import TAIL_SHARE
from ...correctness.place import on_host
from ...correctness.poison import poison_bits
from ...tasks.dtypes import carrier_dtype, item_bytes, largest, numpy_dtype
from ...tasks.inputs import make_inputs
from ...tasks.shapes import output_tensors, shape_of
from .channel import Channel, ChannelClosed
from .guards import NEAR_SET, nearly, poisoned_rows

RENEW_AFTER = 64
"""Measurements that may draw on the same secret contents before fresh ones are made. A kernel cannot carry what it
saw from one measurement to the next: its module is gone and its memory is overwritten."""
RED_WORD = 0xA5A5A5A5A5A5A5A5
_KEEP_SHARE, _KEEP_SHARE_OF_ALL = 0.3, 0.45
"""Of the device's memory, for contents that may be needed again: of one oracle; of several in all, as each has its own
of the same tasks.
"""
_KINDS = {"f64": 0, "f32": 1, "f16": 2, "bf16": 3}
_VERDICT = np.dtype([("squares", "f8"), ("finite", "u8"), ("wrong", "u8"), ("tail", "u8")])

Key = tuple[str, str, int, int]
Row = tuple[int, int, int, bool]
"""Address, address or word to compare with, bytes, whether it is a word."""
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


class Oracle:
    """The process's state: the slab, tasks, contents."""

    def __init__(self, ordinal: int, sharers: int = 1) -> None:
        import cupy

        self.cp = cupy
        cupy.cuda.Device(ordinal).use()
        source = resources.files(__package__).joinpath("oracle.cu").read_text()
        module = cupy.RawModule(code=source, backend="nvrtc", options=("--std=c++17",))
        names = ("copy_many", "fill_many", "differ_many", "judge")
        self._kernels = {name: module.get_function(name) for name in names}
        self._slab = 0
        self._tasks: dict[str, Task] = {}
        self._task: Task | None = None
        self._task_id = ""
        self._contents: dict[Key, _Contents] = {}
        self._keep_share = _KEEP_SHARE if sharers == 1 else _KEEP_SHARE_OF_ALL / sharers
        self._sms = cupy.cuda.Device(ordinal).attributes["MultiProcessorCount"]

    # -- messages ------------------------------------------------------------------------------------------------

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
        self._shrink()
        return {}

    def fill(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._task is not None
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
        layouts, kernel, jobs = message["layouts"], message["kernel"], message["jobs"]
        answers: list[Any] = [None] * len(jobs)
        red = self._red_rows(layouts, jobs)
        inputs = self._input_rows(layouts, jobs) if message["inputs"] else []
        known = self._verified_rows(layouts, kernel, jobs)
        guard = self._guard_rows(layouts, message["guards"])
        hit = self._differ([row for _, row in (*red, *inputs, *known, *guard)])
        for (index, zone), _ in _those(red, hit):
            answers[index] = answers[index] or self._overrun(layouts[jobs[index]["layout"]], jobs[index], *zone)
        for (index, name), _ in _those(inputs, hit[len(red) :]):
            text = f"wrote to {name}, which is an input (case {self._case(jobs[index]).name})"
            answers[index] = answers[index] or {"overrun": text}
        other = {index for (index, _), _ in _those(known, hit[len(red) + len(inputs) :])}
        same = {index for (index, _), _ in known} - other
        doubtful = [index for index in range(len(jobs)) if answers[index] is None and index not in same]
        for index, answer in zip(doubtful, self._judge(layouts, kernel, [jobs[i] for i in doubtful]), strict=True):
            answers[index] = answer
        told = [text for text, _ in _those(guard, hit[len(red) + len(inputs) + len(known) :])]
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
        _, total = self.cp.cuda.runtime.memGetInfo()
        held = {key: contents.bytes() for key, contents in self._contents.items()}
        excess = sum(held.values()) - int(self._keep_share * total)
        if excess <= 0:
            # Blocks stay in the pool: giving gigabytes back and asking again costs more than all of the judging.
            return
        for key, size in held.items():
            if excess > 0 and key[0] != self._task_id:
                del self._contents[key]
                excess -= size
        self.cp.get_default_memory_pool().free_all_blocks()

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
        self, layouts: list[Any], kernel: str, jobs: list[dict[str, Any]]
    ) -> list[tuple[tuple[int, str], Row]]:
        """By job and output: what this kernel once wrote for the same contents, and passed the gate with."""
        rows = []
        for index, job in enumerate(jobs):
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

    def _judge(self, layouts: list[Any], kernel: str, jobs: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
        """The gate on every job's outputs: queued for all of them, then waited for once."""
        assert self._task is not None
        if not jobs:
            return []
        taken: list[tuple[_Contents, dict[str, Any]]] = []
        floats: list[tuple[int, FloatExpectation, int]] = []
        exact: list[tuple[int, Row, Any]] = []
        results = self.cp.zeros((len(jobs) * len(output_tensors(self._task)), _VERDICT.itemsize), np.uint8)
        for index, job in enumerate(jobs):
            outputs = self._take(layouts[job["layout"]], job)
            contents = self._get(job)
            if contents.expectation is None:
                contents.expectation = self._expect(job, contents)
            taken.append((contents, outputs))
            for expected in contents.expectation.tensors:
                got = outputs[expected.tensor.name]
                if isinstance(expected, ExactExpectation):
                    golden = self.cp.ascontiguousarray(expected.golden)
                    exact.append((index, (got.data.ptr, golden.data.ptr, golden.nbytes, False), golden))
                else:
                    self._queue_judge(expected, got, results[len(floats)])
                    floats.append((index, expected, got.size))
        differ = self._differ([row for _, row, _ in exact])
        failed = {index for (index, _, _), hit in zip(exact, differ, strict=True) if hit}
        verdicts = results.get().view(_VERDICT).reshape(-1)
        for (index, expected, size), verdict in zip(floats, verdicts, strict=False):
            rms = float(np.sqrt(verdict["squares"] / max(int(verdict["finite"]), 1)))
            few = int(verdict["tail"]) <= int(size * TAIL_SHARE)
            if int(verdict["wrong"]) or not few or rms > expected.limits.rms:
                failed.add(index)
        answers: list[dict[str, Any] | None] = [None] * len(jobs)
        for index, (contents, outputs) in enumerate(taken):
            # The gate itself finds the words, and has the last one; on the host, where nothing is compiled for it.
            mismatch = self._words(contents.expectation, outputs) if index in failed and contents.expectation else None
            if mismatch is not None:
                answers[index] = {"mismatch": mismatch.model_dump(mode="json")}
            elif jobs[index]["kind"] == "timed":
                contents.verified[kernel] = {name: array.copy() for name, array in outputs.items()}
        return answers

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

    def _queue_judge(self, expected: FloatExpectation, got: Any, result: Any) -> None:
        scale, limit, dtype = expected.scale, expected.limits, expected.tensor.dtype
        given = 0 if scale.given is None else scale.given.data.ptr
        arguments = (
            got, np.int32(_KINDS[dtype]), expected.golden, scale.row_rms, np.uint64(scale.row), np.uint64(given),
            np.float64(limit.maximum), np.float64(limit.tail), np.float64(largest(dtype)), np.uint64(got.size), result,
        )  # fmt: skip
        blocks = min(-(-got.size // 256), 16 * self._sms)
        self._kernels["judge"]((blocks,), (256,), arguments)

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

    def _differ(self, rows: Sequence[Row]) -> list[bool]:
        """Per row whether its bytes differ from the other buffer's or, where the row says so, from a repeated word."""
        if not rows:
            return []
        flags = self.cp.zeros(len(rows), np.uint32)
        self._many("differ_many", rows, flags)
        return [bool(flag) for flag in flags.get()]


def _those(rows: list[tuple[Where, Row]], hit: Sequence[bool]) -> list[tuple[Where, Row]]:
    """The rows that are hit; `hit` may go on behind them."""
    return list(itertools.compress(rows, hit))


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


_VERBS = ("reserve", "begin", "fill", "check", "memory")


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
