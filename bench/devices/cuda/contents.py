"""Secret contents of the cases of tasks: inputs, golden answers, and what passed the gate. Memory of the oracle's own,
which no kernel can address.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ....store.models import Case, Task
from ...correctness.compare import ExactExpectation, FloatExpectation
from ...correctness.gate import Expectation, expect
from ...correctness.place import on_host
from ...tasks.dtypes import numpy_dtype
from ...tasks.inputs import make_inputs
from .guards import NEAR_SET, nearly

RENEW_AFTER = 64
"""Measurements that may draw on the same secret contents before fresh ones are made. A kernel cannot carry what it
saw from one measurement to the next: its module is gone and its memory is overwritten."""
_KEEP_SHARE, _KEEP_SHARE_OF_ALL = 0.3, 0.5
"""Of the device's memory, for contents that may be needed again: of one oracle; of several in all, as each has its own
of the same tasks. Those of the built-in tasks take 17 GB together.
"""
_LOOSE_SHARE = 0.25
"""Of that share, what the pool may hold besides, free, for the next contents: giving gigabytes back and asking again
costs more than all of the judging.
"""

Job = dict[str, Any]
Key = tuple[str, str, int, int]


@dataclass
class Content:
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


class Contents:
    """Those of every task that was measured, as far as they have room; `task`: the one that is measured now.

    sharers: how many oracles divide the device's memory, this one included.
    """

    def __init__(self, cp: Any, sharers: int) -> None:
        self._cp = cp
        self._known: dict[Key, Content] = {}
        self._tasks: dict[str, Task] = {}
        self._task_id = ""
        self._begun = False
        _, memory_bytes = cp.cuda.runtime.memGetInfo()
        self._most_bytes = int(memory_bytes * (_KEEP_SHARE if sharers == 1 else _KEEP_SHARE_OF_ALL / sharers))

    @property
    def task(self) -> Task:
        return self._tasks[self._task_id]

    def begin(self, task_id: str, task: dict[str, Any] | None, keep: str | None) -> None:
        """A new measurement on a task (null: told before). Of what kernels computed, that of `keep` alone stays."""
        self._task_id, self._begun = task_id, True
        if task is not None:
            self._tasks[task_id] = Task.model_validate(task)
        for key, content in list(self._known.items()):
            content.verified = {kernel: taken for kernel, taken in content.verified.items() if kernel == keep}
            if key[0] == task_id:
                del self._known[key]
                content.uses += 1
                if content.uses <= RENEW_AFTER:
                    self._known[key] = content  # at the end: it was used last

    def case(self, job: Job) -> Case:
        cases = self.task.checked if job["kind"] == "checked" else self.task.timed_on("cuda")
        return cases[job["case"]]

    def of(self, job: Job) -> Content:
        key = (self._task_id, job["kind"], job["case"], job["set"])
        content = self._known.get(key)
        if content is None:
            content = self._known[key] = Content(self._make(job))
        return content

    def expectation(self, job: Job) -> Expectation:
        content = self.of(job)
        if content.expectation is None:
            content.expectation = self._expect(job, content)
        return content.expectation

    def make_room(self) -> None:
        """Once a measurement: drop contents of other tasks, those not used for longest first, when all take more than
        their share.
        """
        if not self._begun:
            return
        self._begun = False
        pool = self._cp.get_default_memory_pool()
        excess = pool.used_bytes() - self._most_bytes
        for key in list(self._known):
            if excess > 0 and key[0] != self._task_id:
                excess -= self._known.pop(key).bytes()
        if pool.total_bytes() > (1 + _LOOSE_SHARE) * self._most_bytes:
            pool.free_all_blocks()

    def _make(self, job: Job) -> dict[str, Any]:
        task, case = self.task, self.case(job)
        if job["kind"] == "timed" and job["set"] == NEAR_SET:
            before, other = (self.of({**job, "set": number}).inputs for number in (NEAR_SET - 1, NEAR_SET - 2))
            return nearly(task, case, before, other, np.random.default_rng(secrets.randbits(128)))
        if not on_host(task, case):
            return make_inputs(task, case, secrets.randbits(63), self._cp)
        inputs = make_inputs(task, case, secrets.randbits(63), np)
        return {name: _moved(self._cp, array) for name, array in inputs.items()}

    def _expect(self, job: Job, content: Content) -> Expectation:
        task, case = self.task, self.case(job)
        if not on_host(task, case):
            return expect(task, case, content.inputs, self._cp)
        found = expect(task, case, _host_inputs(task, content.inputs))
        return replace(found, tensors=tuple(_on(self._cp, expected) for expected in found.tensors), xp=self._cp)


def to_host(expectation: Expectation) -> Expectation:
    """The same on numpy's arrays."""
    return replace(expectation, tensors=tuple(_on(np, expected) for expected in expectation.tensors), xp=np)


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
