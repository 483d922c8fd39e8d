"""Searches on a recorded pool: policies with and without forecasts against the controls, at equal GPU seconds.

usage: python scripts/replay_search.py POOL [--tasks A,B] [--seeds 50] [--out FILE.json]

For every task with at least 8 right kernels: the mean of log2(best / found) over budgets of 2 to 30% of the pool's GPU
seconds, and the share of GPU seconds until 99% of the best; paired by seed against each control, with a bootstrap 95%
interval over seeds. True recorded times are compared, not the noisy readings that the search saw.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from pathlib import Path

import numpy as np

from kforecast.store.database import Store
from kforecast.tools.search.events import Measured
from kforecast.tools.search.log import read_events
from kforecast.tools.search.replay import Pool, pool_of
from kforecast.tools.search.state import fold
from kforecast.tools.search.use import search

ARMS = {
    "puct+learned-fold": {"policy": "puct", "forecaster": "learned-fold"},
    "halving+learned-fold": {"policy": "halving", "forecaster": "learned-fold"},
    "puct+base-rate": {"policy": "puct", "forecaster": "base-rate"},
    "control-random": {"policy": "control-random", "forecaster": "base-rate"},
    "control-all": {"policy": "control-all", "forecaster": "base-rate"},
}
CONTROLS = ("control-random", "control-all")
SHARES = np.linspace(0.02, 0.30, 15)


def regret_curve(pool: Pool, task_id: str, total: float, arm: dict[str, str], seed: int) -> tuple[list[float], float]:
    """log2(best / found) at each share of the pool's GPU seconds, and the share until 99% of the best (1: never)."""
    name = pool.tasks[task_id].name
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder).resolve() / "replay.db") as store:
        budget = f"{total:.6f}gpu-s"
        result = search(
            name, budget=budget, device=f"replay:{pool.path}", detached=False, store=store, random_seed=seed,
            verify=False, measuring=1, **arm,
        )  # fmt: skip
        events = read_events(store, result.search_id)
    state = fold(events)
    best = pool.best(task_id)
    assert best is not None and best.measurement.time_us is not None
    seconds, found, readings = 0.0, math.inf, -math.inf
    steps: list[tuple[float, float]] = []
    for event in events:
        if not isinstance(event, Measured):
            continue
        seconds += event.seconds
        if event.verdict == "ok" and (event.log2 or 0.0) > readings:
            readings = event.log2 or 0.0  # what the search believes; what it is worth is the recorded time
            kernel = state.nodes[state.by_id[event.node]].kernel_id
            found = pool.recorded[kernel].measurement.time_us or math.inf
        steps.append((seconds / total, math.log2(found / best.measurement.time_us)))
    first = steps[0][1]
    regrets = [next((r for s, r in reversed(steps) if s <= share), first) for share in SHARES]
    reached = next((share for share, regret in steps if regret <= math.log2(1 / 0.99)), 1.0)
    return regrets, reached


def paired(one: list[float], other: list[float]) -> tuple[float, float, float]:
    """(mean, low, high) of the differences by seed, with a bootstrap 95% interval."""
    differences = np.array(one) - np.array(other)
    rng = np.random.default_rng(0)
    means = [rng.choice(differences, len(differences)).mean() for _ in range(2000)]
    return float(differences.mean()), float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def main() -> None:
    """Run all arms on all tasks and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pool", type=Path)
    parser.add_argument("--tasks", default="")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    pool = pool_of(f"replay:{given.pool}")
    wanted = set(filter(None, given.tasks.split(",")))
    rows = []
    for task in sorted(pool.tasks.values(), key=lambda one: one.name):
        recorded = pool.of_task(task.id)
        if (wanted and task.name not in wanted) or sum(one.ok for one in recorded) < 8:
            continue
        total = sum(one.measurement.device_seconds for one in recorded)
        means: dict[str, list[float]] = {}
        reached: dict[str, list[float]] = {}
        start = time.monotonic()
        for arm, config in ARMS.items():
            curves = [regret_curve(pool, task.id, total, config, seed) for seed in range(given.seeds)]
            means[arm] = [float(np.mean(regrets)) for regrets, _ in curves]
            reached[arm] = [share for _, share in curves]
        print(f"{task.name}: {len(recorded)} kernels, {total:.1f} GPU s ({time.monotonic() - start:.0f} s)")
        for arm in ARMS:
            against = {control: paired(means[arm], means[control]) for control in CONTROLS if control != arm}
            told = "  ".join(f"vs {c}: {m:+.3f} [{lo:+.3f}, {hi:+.3f}]" for c, (m, lo, hi) in against.items())
            print(f"  {arm:22s} regret {np.mean(means[arm]):.3f}  to 99%: {np.median(reached[arm]):.0%}  {told}")
            rows.append(
                {"task": task.name, "arm": arm, "kernels": len(recorded), "gpu_seconds": total, "seeds": given.seeds,
                 "regret": float(np.mean(means[arm])), "share_to_99": float(np.median(reached[arm])), "paired": against}
            )  # fmt: skip
    if given.out is not None:
        given.out.write_text(json.dumps({"pool": given.pool.name, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
