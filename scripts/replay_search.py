"""Searches on a recorded pool: policies with and without forecasts against the controls, at equal GPU seconds.

usage: python scripts/replay_search.py POOL [--forecasts FILE.jsonl.gz] [--tasks A,B] [--seeds 50] [--processes 2]
           [--arms A,B] [--out FILE.json]
       (rows that the file has of other tasks and arms stay)
       python scripts/replay_search.py --table FILE.json           print a run's tables, as docs/search.md has them

For every task with at least 100 right kernels: log2(best / found), the mean over budgets of 2 to 30% of the GPU seconds
that measuring the whole pool takes, and the share of those GPU seconds until 99% of the best; paired by seed against
each control, with a bootstrap 95% interval over seeds. Found is what the search would call its best, best the fastest
of the pool, both by recorded times, not by the noisy readings that the search saw. Controls propose, expand and
measure with the same code, without forecasts. Where the pool, or the file of forecasts, holds those of an agent, it has
an arm too.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small matrices: threads only get in each other's way

import numpy as np

from kforecast.store.database import Store
from kforecast.tools.search.events import Measured
from kforecast.tools.search.log import read_events
from kforecast.tools.search.replay import Pool, pool_of
from kforecast.tools.search.state import fold
from kforecast.tools.search.use import search

ARMS: dict[str, dict[str, Any]] = {
    "gain+learned-fold": {"policy": "gain", "forecaster": "learned-fold"},
    "puct+learned-fold": {"policy": "puct", "forecaster": "learned-fold"},
    "halving+learned-fold": {"policy": "halving", "forecaster": "learned-fold"},
    "gain+base-rate": {"policy": "gain", "forecaster": "base-rate"},
    "control-random": {"policy": "control-random", "forecaster": "base-rate"},
    "control-all": {"policy": "control-all", "forecaster": "base-rate"},
}
CONTROLS = ("control-random", "control-all")
SHARES = np.linspace(0.02, 0.30, 15)
LEAST = 100
_BEYOND = 1e-3
"""Of the pool's GPU seconds, past the last budget looked at."""


def arms_for(pool: Pool, task_id: str, names: list[str]) -> dict[str, dict[str, Any]]:
    """The arms of a task: those named, and one for each agent whose forecasts of the task are in the file."""
    told = sorted({one.forecaster for one in pool.forecasts if one.task_id == task_id})
    stored = {f"gain+stored:{name}": {"policy": "gain", "forecaster": f"stored:{name}"} for name in told}
    return {name: arm for name, arm in {**ARMS, **stored}.items() if not names or name in names}


def searched(pool: Pool, task_id: str, total: float, arm: dict[str, Any], seed: int) -> dict[str, float]:
    """One search. regret: mean log2(best / found) over the shares; share: of GPU seconds until 99% of the best, NaN
    where that is not reached within the last share; measured, proposed: how many.
    """
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder).resolve() / "replay.db") as store:
        result = search(
            pool.tasks[task_id].name,
            budget=f"{(SHARES[-1] + _BEYOND) * total:.6f}gpu-s",
            device=f"replay:{pool.path}",
            detached=False,
            store=store,
            random_seed=seed,
            verify=False,
            measuring=1,
            **arm,
        )
        events = read_events(store, result.search_id)
    state = fold(events)
    best = pool.best(task_id)
    assert best is not None and best.measurement.time_us is not None
    seconds, found, reading = 0.0, math.inf, -math.inf
    steps: list[tuple[float, float]] = []
    for event in events:
        if not isinstance(event, Measured):
            continue
        seconds += event.seconds
        if event.verdict == "ok" and (event.log2 or 0.0) > reading:
            reading = event.log2 or 0.0  # what the search believes; what it is worth is the recorded time
            kernel = state.nodes[state.by_id[event.node]].kernel_id
            found = pool.recorded[kernel].measurement.time_us or math.inf
        steps.append((seconds / total, math.log2(found / best.measurement.time_us)))
    regrets = [next((r for s, r in reversed(steps) if s <= share), steps[0][1]) for share in SHARES]
    reached = next((s for s, r in steps if r <= math.log2(1 / 0.99) and s <= SHARES[-1]), math.nan)
    spent = result.spent
    return {
        "regret": float(np.mean(regrets)),
        "share": reached,
        "measured": spent["measurements"],
        "proposed": spent.get("candidates", 0.0),
    }


def of_task(path: str, task_id: str, names: list[str], seeds: int) -> list[dict[str, Any]]:
    """All arms on one task: rows with what came of each seed."""
    pool = pool_of(f"replay:{path}")
    task, recorded = pool.tasks[task_id].name, pool.of_task(task_id)
    total = sum(one.measurement.device_seconds for one in recorded)
    rows = []
    for arm, config in arms_for(pool, task_id, names).items():
        start = time.process_time()
        found = [searched(pool, task_id, total, config, seed) for seed in range(seeds)]
        regrets = [one["regret"] for one in found]
        rows.append(
            {
                "task": task,
                "arm": arm,
                "kernels": len(recorded),
                "gpu_seconds": total,
                "regrets": [round(one, 5) for one in regrets],
                "shares_to_99": [None if math.isnan(one["share"]) else round(one["share"], 4) for one in found],
                "measured": float(np.mean([one["measured"] for one in found])),
                "proposed": float(np.mean([one["proposed"] for one in found])),
                "cpu_s": (time.process_time() - start) / seeds,
            }
        )
        print(f"{task:14s} {arm:22s} {np.mean(regrets):.3f}  {rows[-1]['cpu_s']:.1f} CPU s a search", flush=True)
    return rows


def paired(one: list[float], other: list[float]) -> tuple[float, float, float]:
    """(mean, low, high) of the differences by seed, with a bootstrap 95% interval."""
    differences = np.array(one) - np.array(other)
    draws = np.random.default_rng(0).integers(len(differences), size=(4000, len(differences)))
    means = differences[draws].mean(axis=1)
    return float(differences.mean()), float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def overall(rows: list[dict[str, Any]], arm: str, control: str) -> tuple[float, float, float]:
    """(mean, low, high) over tasks of the paired difference, tasks drawn anew and seeds within them."""
    by_task = {
        row["task"]: np.array(row["regrets"]) - np.array(other["regrets"])
        for row in rows
        for other in rows
        if row["arm"] == arm and other["arm"] == control and row["task"] == other["task"]
    }
    rng = np.random.default_rng(0)
    tasks = list(by_task.values())
    means = []
    for _ in range(2000):
        chosen = [tasks[place] for place in rng.integers(len(tasks), size=len(tasks))]
        means.append(np.mean([rng.choice(one, len(one)).mean() for one in chosen]))
    centre = float(np.mean([one.mean() for one in tasks]))
    return centre, float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def table(rows: list[dict[str, Any]]) -> str:
    """What came out, in Markdown: a line a task and arm, then the means over tasks."""
    lines = [
        "| task | arm | log2(best / found) | against control-random | against control-all | 99% of the best |",
        "|---|---|---|---|---|---|",
    ]
    by_key = {(row["task"], row["arm"]): row for row in rows}
    for row in rows:
        cells = [row["task"], row["arm"], f"{np.mean(row['regrets']):.3f}"]
        for control in CONTROLS:
            other = by_key.get((row["task"], control))
            same = other is None or control == row["arm"]
            cells.append("" if other is None or same else _interval(paired(row["regrets"], other["regrets"])))
        lines.append(f"| {' | '.join([*cells, _to_99(row)])} |")
    for arm in dict.fromkeys(row["arm"] for row in rows):
        own = [row for row in rows if row["arm"] == arm]
        cells = [
            f"**{len(own)} tasks**" if len(own) > 1 else "**1 task**",
            arm,
            f"{np.mean([np.mean(row['regrets']) for row in own]):.3f}",
        ]
        for control in CONTROLS:
            both = {row["task"] for row in own} & {row["task"] for row in rows if row["arm"] == control}
            cells.append("" if control == arm or not both else _interval(overall(rows, arm, control)))
        reached = np.mean([share is not None for row in own for share in row["shares_to_99"]])
        lines.append(f"| {' | '.join([*cells, f'{reached:.0%} of searches'])} |")
    return "\n".join(lines)


def summary(rows: list[dict[str, Any]]) -> str:
    """A line a task, a column an arm: log2(best / found). Bold: better than either control, worse: than one of them."""
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    by_key = {(row["task"], row["arm"]): row for row in rows}
    lines = [f"| task | {' | '.join(arms)} |", "|---" * (len(arms) + 1) + "|"]
    for task in dict.fromkeys(row["task"] for row in rows):
        cells = []
        for arm in arms:
            row = by_key.get((task, arm))
            cells.append("" if row is None else f"{np.mean(row['regrets']):.3f}")
            others = [by_key.get((task, control)) for control in CONTROLS if arm not in CONTROLS]
            if row is None or not others or None in others:
                continue
            found = [paired(row["regrets"], other["regrets"]) for other in others if other is not None]
            if all(high < 0 for _, _, high in found):
                cells[-1] = f"**{cells[-1]}**"
            elif any(low > 0 for _, low, _ in found):
                cells[-1] += " worse"
        lines.append(f"| {task} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _interval(found: tuple[float, float, float]) -> str:
    mean, low, high = found
    told = f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
    return f"**{told}**" if high < 0 else told + (" worse" if low > 0 else "")


def _to_99(row: dict[str, Any]) -> str:
    """The median share of GPU seconds, and those seconds; where most searches do not get there, how many do."""
    shares = [share for share in row["shares_to_99"] if share is not None]
    if 2 * len(shares) <= len(row["shares_to_99"]):
        return f"{len(shares)} of {len(row['shares_to_99'])}"
    ranked = sorted(shares) + [math.inf] * (len(row["shares_to_99"]) - len(shares))
    median = ranked[len(ranked) // 2]
    return f"{median:.0%}, {median * row['gpu_seconds']:.1f} s"


def _with_earlier(path: Path | None, pool: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the file, those of the same task and arm replaced, in the order of tasks and arms."""
    earlier: dict[str, Any] = {"pool": pool, "rows": []}
    if path is not None and path.exists():
        earlier = json.loads(path.read_text())
    kept = {(row["task"], row["arm"]): row for row in [*(earlier["rows"] if earlier["pool"] == pool else []), *rows]}
    return [kept[key] for key in sorted(kept, key=lambda key: (key[0], [*ARMS, key[1]].index(key[1])))]


def main() -> None:
    """Run all arms on all tasks, or print the table of a run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pool", type=Path, nargs="?")
    parser.add_argument("--forecasts", type=Path, help="more lines of the pool, of somebody's forecasts")
    parser.add_argument("--tasks", default="")
    parser.add_argument("--arms", default="")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--least", type=int, default=LEAST, help=f"right kernels that a task needs ({LEAST})")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    if given.table is not None:
        rows = json.loads(given.table.read_text())["rows"]
        print(summary(rows) + "\n\n" + table(rows))
        return
    if given.pool is None:
        parser.error("name a pool")
    with tempfile.TemporaryDirectory() as folder:
        path = given.pool
        if given.forecasts is not None:  # members of a gzip file read as one
            path = Path(folder).resolve() / given.pool.name
            path.write_bytes(given.pool.read_bytes() + given.forecasts.read_bytes())
        rows = compared(path, given)
    print(table(rows))


def compared(path: Path, given: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of all tasks, and those that the result file had."""
    pool = pool_of(f"replay:{path}")
    wanted, names = set(filter(None, given.tasks.split(","))), list(filter(None, given.arms.split(",")))
    tasks = [
        task
        for task in sorted(pool.tasks.values(), key=lambda one: one.name)
        if (not wanted or task.name in wanted) and sum(one.ok for one in pool.of_task(task.id)) >= given.least
    ]
    rows: list[dict[str, Any]] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.processes, mp_context=context) as workers:
        asked = [workers.submit(of_task, str(path), task.id, names, given.seeds) for task in tasks]
        for one in as_completed(asked):
            rows = _with_earlier(given.out, path.name, rows + one.result())
            if given.out is not None:  # a run that is cut short leaves what it has
                found = {"pool": path.name, "shares": [round(s, 2) for s in SHARES], "rows": rows}
                given.out.write_text(json.dumps(found) + "\n")
    return rows


if __name__ == "__main__":
    main()
