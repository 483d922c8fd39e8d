"""Every built-in task on the cpu device: the tuned kernel against the seed kernel.

    python scripts/tuned_cpu.py [--effort normal] [--tasks NAME,...] [--out docs/results/tuned_cpu.json]

Wanted: every verdict is `ok`, and no tuned kernel is slower than its seed. Begun again with the same --out, machine and
commit, it goes on where it was stopped. At effort `normal` at most about a minute and a half a task. Exit status 0 if
everything is as wanted, else 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, get_args

from on_this_machine import TimeLeft, kept_rows, own_store, provenance, write

from kforecast.bench.tasks.builtin import builtin_kernel, builtin_names
from kforecast.store import measurements
from kforecast.store.database import Store
from kforecast.store.models import Effort
from kforecast.tools.measure import measure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--effort", choices=get_args(Effort), default="normal")
    parser.add_argument("--tasks", type=lambda text: tuple(text.split(",")), default=builtin_names())
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [row for row in kept_rows(options.out) if row["effort"] == options.effort]
    missing = [task for task in options.tasks if task not in {row["task"] for row in rows}]
    time_left = TimeLeft(len(missing))
    print(f"{provenance()['machine']['cpu']}, load {os.getloadavg()[0]:.1f}")
    with own_store() as store:
        for task in missing:
            rows.append(run(store, task, options.effort))
            time_left.one_more(f"{task} {rows[-1]['comparison']}")
            write(options.out, summary(rows), rows)
    print(f"{'task':<16}{'verdict':<11}{'comparison':<12}{'S':>7}  {'95% interval':<17}{'noise':>7}{'blocks':>8}")
    for row in rows:
        interval = f"{number(row['speedup_low'])} to {number(row['speedup_high'])}"
        noise = "-" if row["noise_pct"] is None else f"{row['noise_pct']:.1f}%"
        print(
            f"{row['task']:<16}{row['verdict']:<11}{row['comparison']:<12}{number(row['speedup']):>7}  "
            f"{interval:<17}{noise:>7}{row['blocks']:>8}  {' '.join(row['labels'])}"
        )
    found = summary(rows)
    good = found["ok"] == found["tasks"] and not found["slower"]
    print("everything as wanted" if good else "NOT as wanted")
    return 0 if good else 1


def run(store: Store, task: str, effort: Effort) -> dict[str, Any]:
    """One measurement of tuned against seed, as a plain row. Times in microseconds, cold caches."""
    path = builtin_kernel(task, "c", "tuned")
    assert path is not None, "every built-in task has a tuned kernel in C"
    answer = measure(str(path), baseline="seed", effort=effort, device="cpu", store=store)
    row = measurements.get(store, str(answer.measurement_id))
    assert row is not None
    return {
        "task": task,
        "effort": effort,
        "verdict": row.verdict,
        "reason": row.reason,
        "comparison": row.comparison,
        "speedup": answer.speedup,
        "speedup_low": answer.speedup_low,
        "speedup_high": answer.speedup_high,
        "time_us": row.time_us,
        "baseline_us": row.baseline_us,
        "noise_pct": row.noise_pct,
        "blocks": row.blocks,
        "censored": row.censored,
        "labels": list(row.labels),
        "device_seconds": row.device_seconds,
        "load_1m": os.getloadavg()[0],
        "measured_at": row.created_at,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    counts = {name: sum(row["comparison"] == name for row in rows) for name in ("faster", "tie", "unclear", "slower")}
    return {"tasks": len(rows), "ok": sum(row["verdict"] == "ok" for row in rows), **counts}


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
