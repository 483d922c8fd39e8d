"""How well `learned-fold` ranks the kernels of a pool that were not measured, by how many were.

usage: python scripts/rank_learner.py POOL [--tasks A,B] [--draws 5]

For every task with at least 100 right kernels: so many are known, the seed and others at random, 60 right ones of the
rest are forecast; Spearman's rank correlation of forecast and recorded S, the mean over the draws.
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from kforecast.store.models import Task
from kforecast.tools.search.folds import FoldForecaster
from kforecast.tools.search.forecasting import ForecastAsk, Learnt
from kforecast.tools.search.replay import Pool, Recorded, pool_of

KNOWN = (1, 3, 6, 12, 24, 48, 96)
LEAST = 100
MOST_ASKED = 60


def log2(one: Recorded, root: Recorded) -> float | None:
    """Recorded log2 S over the seed; None where it is not right."""
    return math.log2((root.measurement.time_us or 0.0) / (one.measurement.time_us or math.inf)) if one.ok else None


def correlation(pool: Pool, task: Task, forecaster: FoldForecaster, known: int, draw: int) -> float:
    """Of one draw."""
    root = pool.root(task.id)
    assert root is not None, "the task has right kernels"
    others = [one for one in pool.of_task(task.id) if one.kernel.id != root.kernel.id]
    order = [others[place] for place in np.random.default_rng(draw).permutation(len(others))]
    learnt = (Learnt(root.kernel, 0.0), *(Learnt(one.kernel, log2(one, root)) for one in order[: known - 1]))
    asked = [one for one in order[known - 1 :] if one.ok][:MOST_ASKED]
    asks = [ForecastAsk(one.kernel.id, one.kernel, root.kernel, f"replay:{pool.path}", learnt=learnt) for one in asked]
    told = np.array([outlook.log2_median for outlook in forecaster.outlooks(asks)])
    truth = np.array([log2(one, root) for one in asked], dtype=float)
    ranks = [np.argsort(np.argsort(values)) for values in (told, truth)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def main() -> None:
    """Print a line a task."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pool", type=Path)
    parser.add_argument("--tasks", default="")
    parser.add_argument("--draws", type=int, default=5)
    given = parser.parse_args()
    pool = pool_of(f"replay:{given.pool}")
    wanted = set(filter(None, given.tasks.split(",")))
    print(f"| kernels measured | {' | '.join(map(str, KNOWN))} |\n{'|---' * (len(KNOWN) + 1)}|")
    for task in sorted(pool.tasks.values(), key=lambda one: one.name):
        if (wanted and task.name not in wanted) or sum(one.ok for one in pool.of_task(task.id)) < LEAST:
            continue
        forecaster = FoldForecaster(pool, task)
        means = [np.mean([correlation(pool, task, forecaster, n, draw) for draw in range(given.draws)]) for n in KNOWN]
        print(f"| {task.name} | {' | '.join(f'{mean:.2f}' for mean in means)} |", flush=True)


if __name__ == "__main__":
    main()
