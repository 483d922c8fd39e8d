"""The promise: with probability 1 - delta over the verified pairs, at most alpha of the trusted answers are wrong.

Learn-then-test (Angelopoulos et al., arXiv 2110.01052) with a fixed sequence: the thresholds of `GRID` are tested from
the strictest to the loosest, each with the exact binomial test of "more than alpha of the answers at least this sure
are wrong", until one cannot be rejected; the last one rejected is the threshold of trust. Answers and confidences are
the forecaster's own, uncalibrated: a calibration fitted on these pairs has seen how they ended.

Where the test starts. A threshold with fewer answers than `trials_needed(0, alpha, delta)` can never be rejected and
would end every sequence, so the sequence begins at the first one that has so many; with more pairs at the first that
has enough to forgive one wrong answer, or two, or more, as long as that takes no more than `START` of all.
That depends on how many answers lie above a threshold, never on which are wrong, and keeps the level as long as wrong
answers do not become rarer as confidence falls: at the first threshold where the risk exceeds alpha the count of wrong
answers is binomial given the number above it, and a sequence that starts further out starts with more risk, not less.

Unequal propensities. A pair measured with probability p stands for w = 1/p answers. Whether an answer is measured hangs
on its confidence, on the promise of that day and on a draw, not on how it ends; so pairs of about equal confidence say
the same whatever their day, and their weights are replaced by their mean (else the first audited answer, of weight 20,
would drown the 45 measured before it). What differs between confidences stays. Thinning the pairs to equal weight (keep
each with probability w / w_max) would leave a plain sample, to which the exact test applies; its expected counts are
used, answers rounded down and wrong ones rounded up: Σw / w_max and Σ(w · wrong) / w_max. That is never more than
Kish's effective size (Σw)² / Σw², and equals the plain counts when all weights are equal.

The certainty 1 - delta is that of one learning on pairs that do not hang on earlier promises. Learning again and again
while trust thins the pairs out is more than one test: by scripts/simulate_promise.py, under the one law made to be
hardest (every answer wrong 1.001 alpha of the time) 11 to 18% of such lives end with a broken promise instead of 10%;
under laws in which surer answers are better at most 9% do.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from .binomial import tail_at_most, trials_needed, upper_bound
from .pairs import Pair, one_per_kernel

DELTA = 0.1
START = 1 / 8
"""Share of the verified pairs that the first test may wait for."""
GRID: tuple[float, ...] = (
    0.99, 0.98, 0.97, 0.96, 0.95, 0.94, 0.92, 0.90, 0.88, 0.86, 0.84, 0.82, 0.80, 0.775, 0.75, 0.725, 0.70, 0.675, 0.65,
    0.625, 0.60, 0.575, 0.55, 0.525, 0.50,
)  # fmt: skip
"""Confidences, fixed before any data are seen."""
POOL = 20
"""Answers of about equal confidence whose weights are averaged."""
_SLACK = 1e-9
_FALLING = tuple(-level for level in GRID)
Answer = tuple[float, bool, float]
"""(confidence, wrong, weight) of one verified answer."""


@dataclass(frozen=True)
class Promise:
    """What may be trusted at `alpha`. `threshold` None: nothing, and `missing` says what it takes."""

    alpha: float
    delta: float
    threshold: float | None
    pairs: int
    """Verified pairs at the threshold (or altogether, without one), at their effective number."""
    wrong: int
    bound: float
    """Upper bound on the share of wrong answers among them, at confidence 1 - delta."""
    missing: int
    """Further error-free pairs it takes at least; 0 with a threshold."""

    def covers(self, confidence: float) -> bool:
        """Whether an answer this sure may be trusted."""
        return self.threshold is not None and confidence >= self.threshold - _SLACK


def learn(pairs: Sequence[Pair], alpha: float, delta: float = DELTA) -> Promise:
    """The promise that verified pairs allow: audited or measured ones, of one forecaster on one device."""
    kept = one_per_kernel(pairs)
    return learn_from([(pair.call.confidence, pair.wrong, 1 / pair.propensity) for pair in kept], alpha, delta)


def learn_from(answers: Sequence[Answer], alpha: float, delta: float = DELTA) -> Promise:
    """As `learn`, from one answer a kernel."""
    counts = _counts(_cells(answers))
    total = counts[-1][0]
    start = _first_size(total, alpha, delta)
    held: tuple[float, int, int] | None = None
    for level, (trials, wrong) in zip(GRID, counts, strict=True):
        if held is None and trials < start:
            continue
        if tail_at_most(wrong, trials, alpha) > delta:
            break
        if held is None or trials > held[1]:  # a looser threshold must have been seen to hold, not only not refuted
            held = (level, trials, wrong)
    if held is not None:
        level, trials, wrong = held
        return Promise(alpha, delta, level, trials, wrong, upper_bound(wrong, trials, delta), 0)
    trials, wrong = counts[-1]
    missing = max(1, min(trials_needed(bad, alpha, delta) - n for n, bad in counts))
    bound = upper_bound(wrong, trials, delta) if trials else 1.0
    return Promise(alpha, delta, None, trials, wrong, bound, missing)


def _first_size(total: int, alpha: float, delta: float) -> int:
    """How many answers the first tested threshold must have."""
    forgiven = 0
    while trials_needed(forgiven + 1, alpha, delta) <= START * total:
        forgiven += 1
    return trials_needed(forgiven, alpha, delta)


@dataclass
class _Cell:
    """The answers between two neighbouring confidences of the grid, summed up."""

    count: int = 0
    wrong: int = 0
    weight: float = 0.0


def _cells(answers: Sequence[Answer]) -> list[_Cell]:
    cells = [_Cell() for _ in GRID]
    for confidence, wrong, weight in answers:
        cell = cells[min(bisect_left(_FALLING, -confidence - _SLACK), len(cells) - 1)]
        cell.count += 1
        cell.wrong += wrong
        cell.weight += weight
    return cells


def _pools(cells: Sequence[_Cell]) -> list[list[_Cell]]:
    """Neighbouring cells taken together until they hold `POOL` answers; a remainder joins the last pool."""
    pools: list[list[_Cell]] = [[]]
    for cell in cells:
        if sum(entry.count for entry in pools[-1]) >= POOL:
            pools.append([])
        pools[-1].append(cell)
    if len(pools) > 1 and sum(entry.count for entry in pools[-1]) < POOL:
        last = pools.pop()
        pools[-1].extend(last)
    return pools


def _counts(cells: Sequence[_Cell]) -> list[tuple[int, int]]:
    """(answers, wrong) at each confidence of the grid or above, thinned to equal weight, in expectation."""
    counts = []
    answers = wrong = most = 0.0
    for pool in _pools(cells):
        mean = sum(cell.weight for cell in pool) / max(1, sum(cell.count for cell in pool))
        for cell in pool:
            if cell.count:
                most = max(most, mean)
            answers += cell.count * mean
            wrong += cell.wrong * mean
            scale = most or 1.0
            counts.append((math.floor(answers / scale + _SLACK), math.ceil(wrong / scale - _SLACK)))
    return counts
