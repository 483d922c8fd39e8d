"""Rows to score: forecasts as arrays beside what was measured. A missing reply is a row too: uniform, and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...store.bins import BINS, LOG2_EDGES
from ..contract import Reply

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
CLOSE = 1.0
"""Pairs with |log2 S| below it are close."""


@dataclass(frozen=True)
class Truth:
    """What was measured of a candidate against its baseline. log2_speedup: None where it is not `ok`; log2_again: by a
    second measurement of the pair, None without one."""

    task: str
    baseline_id: str
    candidate_id: str
    ok: bool
    log2_speedup: float | None
    log2_again: float | None = None


@dataclass(frozen=True)
class Rows:
    """n forecasts and their truth. log2: (n,), NaN where not ok; p_bins: (n, 8); task, group: (n,) labels.
    again: (n,), log2 S by a second measurement, NaN without one.

    task clusters the bootstrap; group (task and baseline) holds the candidates that compete with one another.
    """

    p_correct: Array
    p_bins: Array
    ok: Flags
    log2: Array
    task: NDArray[np.str_]
    group: NDArray[np.str_]
    given: Flags
    again: Array

    def __len__(self) -> int:
        return len(self.ok)

    def take(self, index: NDArray[np.int_] | Flags) -> Rows:
        """The rows at an index or under a mask."""
        return Rows(
            self.p_correct[index],
            self.p_bins[index],
            self.ok[index],
            self.log2[index],
            self.task[index],
            self.group[index],
            self.given[index],
            self.again[index],
        )

    @property
    def timed(self) -> Rows:
        """Those whose S is known."""
        return self.take(self.ok & ~np.isnan(self.log2))

    @property
    def close(self) -> Rows:
        """Those whose S is known and within a factor of two of 1."""
        timed = self.timed
        return timed.take(np.abs(timed.log2) < CLOSE)

    @property
    def bin(self) -> NDArray[np.int_]:
        """Index 0..7 of the true bin; only of timed rows."""
        return np.searchsorted(np.array(LOG2_EDGES), self.log2, side="left")


def rows_of(truths: Sequence[Truth], replies: Sequence[Reply | None]) -> Rows:
    """Rows from truths and replies in the same order; None is a parse failure and scores as uniform, P(correct) 1/2."""
    uniform = (1 / len(BINS),) * len(BINS)
    return Rows(
        p_correct=np.array([0.5 if reply is None else reply.p_correct for reply in replies]),
        p_bins=np.array([uniform if reply is None else reply.p_bins for reply in replies]).reshape(-1, len(BINS)),
        ok=np.array([truth.ok for truth in truths], dtype=bool),
        log2=_numbers([truth.log2_speedup for truth in truths]),
        task=np.array([truth.task for truth in truths], dtype=str),
        group=np.array([f"{truth.task}\n{truth.baseline_id}" for truth in truths], dtype=str),
        given=np.array([reply is not None for reply in replies], dtype=bool),
        again=_numbers([truth.log2_again for truth in truths]),
    )


def _numbers(values: Sequence[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in values], dtype=float)
