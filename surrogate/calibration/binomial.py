"""Exact binomial numbers: tails, upper bounds, and how many error-free trials a bound takes."""

from __future__ import annotations

import math
from functools import lru_cache


@lru_cache(maxsize=65536)
def tail_at_most(wrong: int, trials: int, rate: float) -> float:
    """P(X <= wrong) for X ~ Binomial(trials, rate), 0 < rate < 1."""
    if wrong >= trials:
        return 1.0
    if wrong < 0:
        return 0.0
    log_rate, log_rest = math.log(rate), math.log1p(-rate)
    terms = [
        math.lgamma(trials + 1)
        - math.lgamma(k + 1)
        - math.lgamma(trials - k + 1)
        + k * log_rate
        + (trials - k) * log_rest
        for k in range(wrong + 1)
    ]
    return min(1.0, math.fsum(math.exp(term) for term in terms))


@lru_cache(maxsize=4096)
def upper_bound(wrong: int, trials: int, delta: float) -> float:
    """The exact upper bound on the rate at confidence 1 - delta (Clopper & Pearson, Biometrika 26, 1934)."""
    if wrong >= trials:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if tail_at_most(wrong, trials, middle) > delta:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=4096)
def trials_needed(wrong: int, rate: float, delta: float) -> int:
    """The fewest trials, `wrong` of them wrong, that show the rate to be below `rate` at confidence 1 - delta."""
    low, high = wrong, max(1, wrong)
    while tail_at_most(wrong, high, rate) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if tail_at_most(wrong, middle, rate) > delta:
            low = middle
        else:
            high = middle
    return high
