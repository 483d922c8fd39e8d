"""Many comparisons, one wait: what a check asks of the device is queued whole, then read back at once.

On a device that several processes use in turn, each answer that is waited for costs a switch between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...correctness.compare import FloatExpectation
from ...correctness.norms import TAIL_SHARE
from ...tasks.dtypes import largest

Row = tuple[int, int, int, bool]
"""Address, address or word to compare with, bytes, whether it is a word."""
Launch = Callable[..., None]
_KINDS = {"f64": 0, "f32": 1, "f16": 2, "bf16": 3}
_VERDICT = np.dtype([("squares", "f8"), ("finite", "u8"), ("wrong", "u8"), ("tail", "u8")])


class Round:
    """What one round trip asks. `differ` and `judge` answer with numbers that `differs` and `is_wrong` take after
    `end`.

    compare: launches the comparison of many rows, given (rows, flags). judge: launches the gate's norms of one output,
    given (expectation, output, kind, result).
    """

    def __init__(self, cp: Any, compare: Launch, judge: Launch) -> None:
        self._cp = cp
        self._compare, self._judge = compare, judge
        self._rows: list[Row] = []
        self._floats: list[tuple[FloatExpectation, Any]] = []
        self._flags: list[bool] = []
        self._verdicts: Any = None

    def differ(self, rows: Sequence[Row]) -> range:
        """Ask of each row whether its bytes differ from the other buffer's or, where it says so, from a repeated
        word.
        """
        first = len(self._rows)
        self._rows += rows
        return range(first, len(self._rows))

    def judge(self, expected: FloatExpectation, got: Any) -> int:
        """Ask for the norms of an output against its golden values."""
        self._floats.append((expected, got))
        return len(self._floats) - 1

    def end(self) -> None:
        """Queue everything, wait once."""
        if not self._rows and not self._floats:
            return
        before = 8 * -(-4 * len(self._rows) // 8)
        answers = self._cp.zeros(before + len(self._floats) * _VERDICT.itemsize, np.uint8)
        if self._rows:
            self._compare(self._rows, answers[: 4 * len(self._rows)].view(np.uint32))
        for number, (expected, got) in enumerate(self._floats):
            start = before + number * _VERDICT.itemsize
            kind = np.int32(_KINDS[expected.tensor.dtype])
            self._judge(expected, got, kind, answers[start : start + _VERDICT.itemsize])
        told = answers.get()
        self._flags = [bool(flag) for flag in told[: 4 * len(self._rows)].view(np.uint32)]
        self._verdicts = told[before:].view(_VERDICT)

    def differs(self, number: int) -> bool:
        return self._flags[number]

    def is_wrong(self, number: int) -> bool:
        """Whether an output is outside the gate's limits."""
        expected, got = self._floats[number]
        verdict = self._verdicts[number]
        rms = float(np.sqrt(verdict["squares"] / max(int(verdict["finite"]), 1)))
        few = int(verdict["tail"]) <= int(got.size * TAIL_SHARE)
        return bool(int(verdict["wrong"]) or not few or rms > expected.limits.rms)


def judge_arguments(expected: FloatExpectation, got: Any, kind: Any, result: Any) -> tuple[Any, ...]:
    """What the `judge` kernel of oracle.cu takes."""
    scale, limit = expected.scale, expected.limits
    given = 0 if scale.given is None else scale.given.data.ptr
    return (
        got, kind, expected.golden, scale.row_rms, np.uint64(scale.row), np.uint64(given), np.float64(limit.maximum),
        np.float64(limit.tail), np.float64(largest(expected.tensor.dtype)), np.uint64(got.size), result,
    )  # fmt: skip
