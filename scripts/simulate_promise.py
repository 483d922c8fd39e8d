"""The promise by simulation: known laws × alpha, and how often the threshold it sets breaks it (aim: at most delta).

    python scripts/simulate_promise.py                       # the table, under a minute
    python scripts/simulate_promise.py --draws 4000 --out promise.json

Each draw takes verified answers from a law that says how often an answer of a given confidence is wrong, learns the
promise, and computes the true share of wrong answers above its threshold from the law. `broken`: share of draws in
which that is above alpha. `trusts`: share of draws that trust at all. Plans: `plain`, every answer verified; `unequal`,
the sure half verified with probability 0.2 and weighted; `loop`, the whole life: answers come one after another, the
promise is learned anew every 25, trusted answers are audited at 20%, and the last promise is judged.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kforecast.surrogate.calibration.promise import DELTA, GRID, Promise, learn_from

Array = NDArray[np.float64]
Risk = Callable[[Array, float], Array]
"""(confidence, alpha) -> P(wrong)."""
_FINE = np.linspace(0.5, 1.0, 5001)


def _level(confidence: Array, alpha: float) -> Array:
    """The hardest: every answer is wrong a little more often than alpha, however sure."""
    return np.full_like(confidence, alpha * 1.001)


def _honest(confidence: Array, alpha: float) -> Array:
    """Calibrated: wrong as often as it says."""
    return 1 - confidence


def _boaster(confidence: Array, alpha: float) -> Array:
    """Overconfident: log-odds twice as large as they should be."""
    odds = np.log(np.clip(confidence, 1e-9, 1 - 1e-9) / np.clip(1 - confidence, 1e-9, 1))
    return np.asarray(1 / (1 + np.exp(odds / 2)))


def _cliff(confidence: Array, alpha: float) -> Array:
    """Nearly always right above 0.9, wrong three times alpha below."""
    return np.where(confidence >= 0.9, alpha / 10, min(0.9, 3 * alpha))


def _perverse(confidence: Array, alpha: float) -> Array:
    """Against the assumption: the surest answers are the worst."""
    return np.where(confidence >= 0.97, min(0.9, 2.5 * alpha), alpha / 2)


LAWS: dict[str, Risk] = {
    "level": _level, "honest": _honest, "boaster": _boaster, "cliff": _cliff, "perverse": _perverse,
}  # fmt: skip
PLANS = ("plain", "unequal", "loop")


@dataclass(frozen=True)
class Row:
    """One cell of the table."""

    law: str
    plan: str
    alpha: float
    answers: int
    draws: int
    broken: float
    trusts: float
    limit: float
    """delta + 3 standard errors of `draws` draws."""


def true_risk(law: Risk, threshold: float, alpha: float) -> float:
    """The share of wrong answers at or above the threshold; confidence is uniform on 0.5..1."""
    return float(law(_FINE[threshold - 1e-9 <= _FINE], alpha).mean())


def one_promise(law: Risk, plan: str, alpha: float, answers: int, rng: np.random.Generator) -> Promise:
    """The promise learned from one draw."""
    confidence = rng.uniform(0.5, 1.0, answers)
    wrong = rng.random(answers) < law(confidence, alpha)
    if plan == "loop":
        return _loop(confidence, wrong, alpha, rng)
    p = np.where(confidence > 0.75, 0.2, 1.0) if plan == "unequal" else np.ones(answers)
    seen = rng.random(answers) < p
    return _learn(confidence[seen], wrong[seen], 1 / p[seen], alpha)


def _loop(confidence: Array, wrong: NDArray[np.bool_], alpha: float, rng: np.random.Generator) -> Promise:
    weights = np.zeros(len(confidence))
    promise = _learn(confidence[:0], wrong[:0], weights[:0], alpha)
    for start in range(0, len(confidence), 25):
        batch = slice(start, start + 25)
        trusted = np.array([promise.covers(value) for value in confidence[batch]])
        p = np.where(trusted, 0.2, 1.0)
        weights[batch] = np.where(rng.random(len(p)) < p, 1 / p, 0.0)
        seen = weights[: batch.stop] > 0
        promise = _learn(confidence[: batch.stop][seen], wrong[: batch.stop][seen], weights[: batch.stop][seen], alpha)
    return promise


def _learn(confidence: Array, wrong: NDArray[np.bool_], weights: Array, alpha: float) -> Promise:
    return learn_from(list(zip(confidence.tolist(), wrong.tolist(), weights.tolist(), strict=True)), alpha)


def simulate(law: str, plan: str, alpha: float, answers: int, *, draws: int) -> Row:
    """One row: `draws` promises under a law and a plan."""
    rng = np.random.default_rng([1, list(LAWS).index(law), PLANS.index(plan), round(1000 * alpha)])
    risk = {threshold: true_risk(LAWS[law], threshold, alpha) for threshold in GRID}
    promises = [one_promise(LAWS[law], plan, alpha, answers, rng) for _ in range(draws)]
    broken = sum(promise.threshold is not None and risk[promise.threshold] > alpha for promise in promises) / draws
    trusts = sum(promise.threshold is not None for promise in promises) / draws
    limit = DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / draws)
    return Row(law, plan, alpha, answers, draws, broken, trusts, limit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--answers", type=int, nargs="+", default=[100, 400])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = []
    print(f"{'law':10}{'plan':9}{'alpha':>6}{'answers':>9}{'broken':>9}{'limit':>8}{'trusts':>8}")
    for law in LAWS:
        for plan in PLANS:
            for alpha in (0.05, 0.1, 0.2):
                for answers in arguments.answers:
                    row = simulate(law, plan, alpha, answers, draws=arguments.draws)
                    rows.append(row)
                    mark = "  above" if row.broken > row.limit else ""
                    print(
                        f"{law:10}{plan:9}{alpha:6.2f}{answers:9}{row.broken:9.3f}{row.limit:8.3f}{row.trusts:8.2f}{mark}"
                    )
    if arguments.out is not None:
        arguments.out.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
