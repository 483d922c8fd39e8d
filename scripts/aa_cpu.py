"""A/A on the cpu device: kernels against themselves, where every `faster` and `slower` is false.

    python scripts/aa_cpu.py [--runs 400] [--tasks NAME,...] [--seed 1] [--out docs/results/aa_cpu.json]
    python scripts/aa_cpu.py --runs 120 --problems FILE.py … --out docs/results/aa_host_code_cpu.json

Each run measures a built-in task's seed kernel against the same source at effort `quick`, through the broker; a round
takes every task once, in random order, and has a broker process of its own (every block has candidate processes of its
own anyway). `--problems` takes PyTorch files instead, in the host-code lane. Wanted: the interval of S holds 1 in at
least 93% of the runs, `faster` or `slower` in at most 5%. Begun again with the same --out, machine and commit, it goes
on where it was stopped. Measure on a quiet machine: prints its load. Exit status 0 if everything is as wanted, else 1.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import sys
from pathlib import Path
from typing import Any

from on_this_machine import TimeLeft, kept_rows, own_store, provenance, write

from kforecast.bench.tasks.builtin import builtin_kernel, builtin_names
from kforecast.store import measurements, requests
from kforecast.store.database import Store
from kforecast.tools.measure import measure

COVERAGE_WANTED = 0.93
FALSE_ALLOWED = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--tasks", type=lambda text: tuple(text.split(",")), default=builtin_names())
    parser.add_argument("--problems", nargs="+", default=(), help="PyTorch problems instead of built-in tasks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = kept_rows(options.out)
    chance = random.Random(f"{options.seed} {len(rows)}")
    time_left = TimeLeft(options.runs - len(rows))
    print(f"{provenance()['machine']['cpu']}, load {os.getloadavg()[0]:.1f}")
    with own_store() as store:
        while len(rows) < options.runs:
            tasks = options.problems or options.tasks
            for task in chance.sample(tasks, k=min(len(tasks), options.runs - len(rows))):
                rows.append(run(store, task))
                time_left.one_more(f"{task} {rows[-1]['comparison']}")
            write(options.out, summary(rows), rows)
            end_broker(store)
    found = summary(rows)
    for name, value in found.items():
        print(f"  {name:<28}{value:>10}")
    good = found["coverage"] >= COVERAGE_WANTED and found["false_share"] <= FALSE_ALLOWED and not found["not_ok"]
    print("everything as wanted" if good else "NOT as wanted")
    return 0 if good else 1


def run(store: Store, task: str) -> dict[str, Any]:
    """One A/A measurement, as a plain row. Ratios are log2; times in microseconds, cold caches."""
    path = Path(task) if task.endswith(".py") else builtin_kernel(task, "c", "seed")
    assert path is not None, "every built-in task has a seed kernel in C"
    answer = measure(str(path), baseline=str(path), effort="quick", device="cpu", store=store)
    row = measurements.get(store, str(answer.measurement_id))
    assert row is not None
    return {
        "task": path.name if task.endswith(".py") else task,
        "verdict": row.verdict,
        "comparison": row.comparison,
        "log2_speedup": row.log2_speedup,
        "log2_low": row.log2_low,
        "log2_high": row.log2_high,
        "noise_pct": row.noise_pct,
        "time_us": row.time_us,
        "blocks": row.blocks,
        "host_limited": "host-limited" in row.labels,
        "load_1m": os.getloadavg()[0],
        "measured_at": row.created_at,
    }


def end_broker(store: Store) -> None:
    """End the broker that worked on the newest request, so that the next round starts another."""
    last = requests.recent(store, 1)[0]
    for pid in broker_processes(last.device, str(store.path)):
        os.kill(pid, signal.SIGTERM)


def broker_processes(device: str, store: str) -> list[int]:
    command = b"\0".join([b"-m", b"kforecast.bench.broker", device.encode()])
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            ours = command in (entry / "cmdline").read_bytes()
            ours &= f"KFORECAST_DB={store}".encode() in (entry / "environ").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if ours:
            found.append(int(entry.name))
    return found


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Coverage and false calls over the runs that gave an interval; half-widths in percent of S."""
    told = [row for row in rows if row["log2_low"] is not None and row["log2_high"] is not None]
    false = sum(row["comparison"] in ("faster", "slower") for row in rows)
    widths = [100 * (2 ** ((row["log2_high"] - row["log2_low"]) / 2) - 1) for row in told]
    return {
        "runs": len(rows),
        "tasks": len({row["task"] for row in rows}),
        "not_ok": sum(row["verdict"] != "ok" for row in rows),
        "coverage": round(sum(row["log2_low"] <= 0 <= row["log2_high"] for row in told) / max(len(told), 1), 4),
        "false": false,
        "false_share": round(false / max(len(rows), 1), 4),
        "ties": sum(row["comparison"] == "tie" for row in rows),
        "unclear": sum(row["comparison"] == "unclear" for row in rows),
        "without_interval": len(rows) - len(told),
        "half_width_pct_median": round(statistics.median(widths), 2) if widths else None,
        "host_limited": sum(row["host_limited"] for row in rows),
        "load_1m_median": round(statistics.median(row["load_1m"] for row in rows), 2) if rows else None,
    }


if __name__ == "__main__":
    sys.exit(main())
