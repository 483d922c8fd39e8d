"""Live searches from seed kernels: `puct` with forecasts against both controls, at equal GPU seconds, several seeds.

usage: python scripts/live_search.py OUT.json [--tasks …] [--seeds 5] [--gpu-seconds 20] [--forecaster learned]
       [--language cuda|c]

Prints and writes, for each search, best S so far against GPU seconds and candidates, what the winner's second
measurement (effort `claim`, against the seed) says, and the whole cost; arms are paired by seed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from kforecast.bench.tasks.builtin import builtin_kernel
from kforecast.store.database import Store
from kforecast.tools.search.report import report_of
from kforecast.tools.search.use import search


def arms(forecaster: str) -> dict[str, dict[str, str]]:
    """What is compared."""
    return {
        f"puct+{forecaster}": {"policy": "puct", "forecaster": forecaster},
        "control-random": {"policy": "control-random", "forecaster": "base-rate"},
        "control-all": {"policy": "control-all", "forecaster": "base-rate"},
    }


def run(store: Store, task: str, seed_number: int, arm: dict[str, str], given: argparse.Namespace) -> dict[str, Any]:
    """One search."""
    seed = builtin_kernel(task, given.language, "seed")
    assert seed is not None, "the tasks have seeds in both languages"
    start = time.monotonic()
    result = search(
        str(seed),
        budget=f"{given.gpu_seconds}gpu-s",
        generator="edits+tune",
        random_seed=seed_number,
        detached=False,
        store=store,
        **arm,
    )
    report = report_of(store, result.search_id)
    best = result.best
    return {
        "search": result.search_id,
        "state": result.state,
        "best": None if best is None else best.model_dump(mode="json"),
        "spent": result.spent,
        "wall_s": time.monotonic() - start,
        "curve": [[point.gpu_seconds, point.candidates, 2.0**point.log2] for point in report.curve],
        "decisions": report.decisions,
        "verdicts": report.verdicts,
        "diff": report.diff,
    }


def main() -> None:
    """Run all tasks, seeds and arms; arms take turns, so that a drifting machine meets all of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", default="softmax_rows,layernorm,transpose,gemm_f32")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--gpu-seconds", type=float, default=20.0)
    parser.add_argument("--forecaster", default="learned")
    parser.add_argument("--language", choices=["c", "cuda"], default="cuda")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with Store.open() as store:
        for task in given.tasks.split(","):
            for number in range(given.seeds):
                for name, arm in arms(given.forecaster).items():
                    row = {"task": task, "seed": number, "arm": name, **run(store, task, number, arm, given)}
                    rows.append(row)
                    found = row["best"]
                    told = "nothing" if found is None else f"{found['speedup']:.3f}x, verified: {found['verified']}"
                    spent = row["spent"]
                    print(
                        f"{task:14s} seed {number} {name:18s} {told}; {spent.get('candidates', 0):.0f} candidates, "
                        f"{spent.get('measurements', 0):.0f} measured, {spent.get('gpu_seconds', 0):.1f} GPU s, "
                        f"{row['wall_s']:.1f} s"
                    )
                    given.out.write_text(json.dumps({"gpu_seconds": given.gpu_seconds, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
