"""What a kernel that looks ahead or keeps answers runs into: slots that belong to no call, inputs looked at once more,
contents that are nearly the same.

All slots of a hand-over lie in memory that every launch can reach. So a kernel could compute what later calls will ask
for; it cannot know which of the slots nobody will ever call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....store.models import Case, Task
from ...tasks.shapes import input_tensors

DECOY_SHARE = 0.2
"""Of the samples, those whose slots have one more among them that belongs to no call."""
PROBED_SHARE = 0.125
"""Of the timed calls, those whose inputs are compared afterwards: memory of a call that is over could keep answers."""
NEAR_SET = 2
"""The contents that are those of the set before, save for one stretch."""
_STRETCH = 256
_INDEPENDENT = frozenset(
    {"normal", "uniform", "positive", "negative", "large", "huge", "tiny", "offset", "ints", "ties"}
)

Job = dict[str, Any]


@dataclass
class Guards:
    """Jobs of no call, whose outputs must stay poisoned, and jobs whose inputs must be as they were."""

    decoys: list[Job] = field(default_factory=list)
    probed: list[Job] = field(default_factory=list)

    def as_message(self) -> dict[str, list[Job]]:
        return {"decoys": self.decoys, "probed": self.probed}

    def probe(self, jobs: Sequence[Job], random: np.random.Generator) -> None:
        """Choose the calls whose inputs are looked at: one at least."""
        count = min(len(jobs), math.ceil(PROBED_SHARE * len(jobs)))
        self.probed += [jobs[int(index)] for index in random.choice(len(jobs), count, replace=False)]


def nearly(
    task: Task, case: Case, inputs: Mapping[str, Any], others: Mapping[str, Any], random: np.random.Generator
) -> dict[str, Any]:
    """Copies of `inputs` in which a random stretch, one in 256 elements, is that of `others`.

    A kernel that knows contents again by a few of their elements takes the two for the same. Inputs whose elements
    depend on each other (sorted, one hot, …) stay as they are, all other contents then `others` itself.
    """
    fills = {tensor.name: case.fill.get(tensor.name, tensor.fill) for tensor in input_tensors(task)}
    free = [name for name, fill in fills.items() if fill in _INDEPENDENT or fill.startswith("index:")]
    copies = {name: array.copy() for name, array in inputs.items()}
    for name in free:
        mine, theirs = copies[name].reshape(-1), others[name].reshape(-1)
        length = max(1, mine.size // _STRETCH)
        start = int(random.integers(mine.size - length + 1))
        mine[start : start + length] = theirs[start : start + length]
    return copies


def poisoned_rows(
    task: Task, layout: Mapping[str, Any], base: int, word: Callable[[str], int], red: int
) -> list[tuple[int, int, int]]:
    """What must lie in a slot that no call was given, as address, 8-byte word and bytes: poison and red zones.

    base: the address of the slot's outputs. word: the poison of a dtype. Outputs that begin with contents are left out.
    """
    rows = [
        (base + layout["outputs"][tensor.name][0], word(tensor.dtype), layout["outputs"][tensor.name][1])
        for tensor in task.tensors
        if tensor.role == "out"
    ]
    rows += [(base + offset, word(dtype), size) for offset, size, dtype in layout["scratch"]]
    return rows + [(base + offset, red, size) for offset, size in layout["red"]]
