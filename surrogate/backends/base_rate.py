"""`base-rate`: what came of other kernels. The control that every other forecaster has to beat."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...store.models import Kernel
from ..contract import Answer, Query, Reply, Sibling, Side
from ..learned.model import Difference
from ..structure import similarity

NAME = "base-rate"
_PRIOR_ROWS = 1.0
"""Measured kernels that the prior counts for."""
_SPREADS = tuple(0.25 * 2.5**step for step in (-math.sqrt(3), 0.0, math.sqrt(3)))
_SPREAD_SHARES = (1 / 6, 2 / 3, 1 / 6)
"""How far the kernels of one task differ, as standard deviations of log2 time, and how many tasks are so: a normal of
the logarithm in three points (Gauss and Hermite). It was 0.22 octaves, give or take a factor of 2.3, over the 18 tasks
of `docs/results/h200_kernels.jsonl.gz` and `h200_pool.jsonl.gz`; other devices may differ: both are a little more."""
_PRIOR_CORRECT_ROWS = 2.0
"""Measured kernels that an even chance to be correct counts for."""
_LENGTH = 0.3
"""How fast a measured kernel counts less as it is less like the candidate: exp((similarity - 1) / length)."""
_Z95 = 1.96
_UNBOUNDED_SD = 1.0


class BaseRate:
    """Gives every candidate the same reply (see `metrics.controls.base_rate`), whatever it is: the control."""

    name = NAME

    def __init__(self, reply: Reply, *, stands_in_for: str = "") -> None:
        """stands_in_for: the forecaster that stepped aside, not being trained for this device; '' for none."""
        self._reply = reply
        self._stands_in_for = stands_in_for

    def forecast(self, query: Query) -> Answer:
        """The same reply for all."""
        return _answer((self._reply,) * len(query.candidates), self._stands_in_for)


class TaskRate:
    """How often each bin came up among the measured kernels of the task, over this very baseline.

    Each counts as far as it is like the candidate, for one row at most, and is spread the wider the less it is alike,
    as far as two kernels of a task are known to differ. The baseline itself counts as a tie, and so does a prior that
    is as wide as for a kernel with nothing in common.
    """

    name = NAME

    def __init__(self, measured: Sequence[Sibling], *, stands_in_for: str = "") -> None:
        """measured: of the query's task and device, S over the query's baseline; those without a measured pair behind
        their S tell of correctness alone. stands_in_for: as above."""
        self._measured = tuple(one for one in measured if one.verdict != "unsupported")
        self._stands_in_for = stands_in_for

    def forecast(self, query: Query) -> Answer:
        """One reply a candidate."""
        return _answer([self._reply(query, side) for side in query.candidates], self._stands_in_for)

    def _reply(self, query: Query, candidate: Side) -> Reply:
        base = query.baseline.kernel
        asked = base.source_id, candidate.kernel.source_id
        others = [one for one in self._measured if one.kernel.source_id not in asked]
        tie = Sibling(kernel=base, log2_speedup=0.0, log2_low=0.0, log2_high=0.0)
        weights = np.array([_nearness(one.kernel, candidate.kernel) for one in (tie, *others)])
        counts = _PRIOR_ROWS * np.array(_around(0.0, own_sd=0.0, unlike=1.0))
        for one, weight in zip((tie, *others), weights, strict=True):
            if one.log2_speedup is not None and not one.unpaired:
                unlike = 1 - similarity(one.kernel, candidate.kernel)
                counts += weight * np.array(_around(one.log2_speedup, own_sd=_own_sd(one), unlike=unlike))
        # Of correctness the baseline's own verdict and an earlier one of the candidate tell as well.
        right = np.array([one.verdict == "ok" for one in self._measured], dtype=float)
        near = np.array([_nearness(one.kernel, candidate.kernel) for one in self._measured])
        correct = (_PRIOR_CORRECT_ROWS / 2 + float(near @ right)) / (_PRIOR_CORRECT_ROWS + float(near.sum()))
        compiles = candidate.facts is None or candidate.facts.ok
        return Reply(
            p_correct=correct if compiles else 0.0,
            p_bins=tuple(map(float, counts / counts.sum())),
            reasoning=f"{len(others)} other measured kernels of the task, those like it before others",
        )


def _answer(replies: Sequence[Reply], aside: str) -> Answer:
    return Answer(
        forecaster=NAME,
        replies=tuple(replies),
        problems=(f"{aside} is not trained for this device",) if aside else (),
        usd=0.0,
        tokens=0,
        not_trained=bool(aside),
    )


def _nearness(measured: Kernel, candidate: Kernel) -> float:
    """What a measured kernel counts for, 0..1; 1 for the same program."""
    return math.exp((similarity(measured, candidate) - 1) / _LENGTH)


def _around(log2: float, *, own_sd: float, unlike: float) -> tuple[float, ...]:
    """Bin probabilities of a kernel's log2 S that is like a measured one's but for the share `unlike`, 0..1."""
    sds = tuple(math.hypot(own_sd, math.sqrt(2) * spread * unlike) for spread in _SPREADS)
    return Difference(log2, sds, _SPREAD_SHARES).p_bins


def _own_sd(measured: Sibling) -> float:
    """Standard deviation of a measured log2 S, from its interval."""
    if measured.log2_low is None or measured.log2_high is None:
        return _UNBOUNDED_SD
    return (measured.log2_high - measured.log2_low) / (2 * _Z95)
