"""A/A runs: kernels against themselves, over many kernels and launcher processes; how often does the bench err?

Every run's true S is 1. Wanted at 10 us and above: the interval holds 1 in at least 93% of the runs, its half-width is
at most 0.5% in the median, and at most 5% of the runs say faster or slower. Shorter kernels are reported apart.
"""

from __future__ import annotations

import math
import random
from typing import Any

from common import SHORT, SLOW_SEEDS, Bench, Clock, median, options, report, say, shipped, table

from kforecast.bench.tasks.builtin import builtin_names
from kforecast.store.models import Measurement
from kforecast.tools.kernels import Named

LONG_US = 10.0


def main() -> None:
    parser = options(__doc__, seconds=300)
    parser.add_argument("--runs", type=int, default=408, help="of built-in sizes (408)")
    parser.add_argument("--short-runs", type=int, default=80)
    parser.add_argument("--launchers", type=int, default=6)
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--cap", type=float, default=1.0, help="seconds of sampling a run (1)")
    parser.add_argument("--kernels", type=int, default=24, help="kernels of built-in sizes (24)")
    asked = parser.parse_args()
    device = "cpu" if asked.dry else asked.device
    rng = random.Random(1)
    with Bench(device) as bench:
        runs = in_order(kernels_of(bench)[: asked.kernels], asked.runs, rng)
        runs += in_order([shipped(bench, task, "tuned", short=True) for task in SHORT], asked.short_runs, rng)
        rng.shuffle(runs)
        clock = Clock(asked.seconds)
        rows: list[dict[str, Any]] = []
        launcher = 0
        for number, kernel in enumerate(runs):
            if clock.over:
                say(f"time is over: {len(runs) - number} runs left out")
                break
            wanted = number * asked.launchers // len(runs)
            if wanted != launcher:
                launcher = wanted
                bench.fresh_launcher()
            found = bench.measure(kernel, kernel, effort=asked.effort, cap_s=asked.cap)
            rows.append({"kernel": kernel.called, "launcher": launcher, **row_of(found)})
            if number % 50 == 49:
                say(f"{clock.elapsed:6.1f} s  {number + 1} runs")
        seconds = clock.elapsed
    groups = {
        f"all >= {LONG_US:g} us": [row for row in rows if (row["time_us"] or 0) >= LONG_US],
        f"all < {LONG_US:g} us": [row for row in rows if row["time_us"] and row["time_us"] < LONG_US],
    }
    kernels = {name: [row for row in rows if row["kernel"] == name] for name in sorted({r["kernel"] for r in rows})}
    columns = [
        "group",
        "runs",
        "kernels",
        "covers 1 %",
        "95% CI",
        "half-width %",
        "wrong side %",
        "time us",
        "A/A noise %",
    ]
    text = table(columns, [_line(name, group) for name, group in {**kernels, **groups}.items() if group])
    summary = {name: numbers(group) for name, group in groups.items()}
    facts = {"launchers": launcher + 1, "seconds": seconds, "effort": asked.effort, "cap_s": asked.cap}
    report(asked.out, "aa", device, {**facts, **summary}, rows, f"{text}\n{facts}")


def kernels_of(bench: Bench) -> list[Named]:
    """Tuned kernels of every task, and the seeds that are not milliseconds slow, tuned ones first."""
    names = builtin_names()
    tuned = [shipped(bench, task, "tuned") for task in names]
    return tuned + [shipped(bench, task, "seed") for task in names if task not in SLOW_SEEDS]


def in_order(kernels: list[Named], runs: int, rng: random.Random) -> list[Named]:
    """Each kernel equally often."""
    order = [kernels[n % len(kernels)] for n in range(runs)]
    rng.shuffle(order)
    return order


def row_of(found: Measurement | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"verdict": "no answer", "reason": found, "time_us": None, "log2_low": None, "comparison": "none"}
    keys: tuple[str, ...] = (
        "verdict",
        "reason",
        "comparison",
        "log2_speedup",
        "log2_low",
        "log2_high",
        "confidence",
        "interval_method",
    )
    keys += ("blocks", "time_us", "noise_pct", "device_seconds", "launch_mode")
    return {key: getattr(found, key) for key in keys}


def numbers(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Coverage, half-width and false comparisons of these runs; those without an interval are counted apart."""
    bounded = [row for row in rows if row["log2_low"] is not None]
    covering = sum(row["log2_low"] <= 0 <= row["log2_high"] for row in bounded)
    half_widths = [100 * (2 ** ((row["log2_high"] - row["log2_low"]) / 2) - 1) for row in bounded]
    false = sum(row["comparison"] in ("faster", "slower") for row in rows)
    return {
        "runs": len(rows),
        "kernels": len({row["kernel"] for row in rows}),
        "without_interval": len(rows) - len(bounded),
        "coverage_pct": 100 * covering / len(bounded) if bounded else None,
        "coverage_95": wilson(covering, len(bounded)),
        "half_width_pct": median(half_widths),
        "false_pct": 100 * false / len(rows) if rows else None,
        "time_us": median([row["time_us"] for row in rows if row["time_us"]]),
        "noise_pct": median([row["noise_pct"] for row in rows if row.get("noise_pct")]),
    }


def _line(name: str, rows: list[dict[str, Any]]) -> list[Any]:
    found = numbers(rows)
    low, high = found["coverage_95"]
    keys = ("half_width_pct", "false_pct", "time_us", "noise_pct")
    ci = f"{low:.0f}..{high:.0f}"
    return [name, found["runs"], found["kernels"], found["coverage_pct"], ci, *(found[key] for key in keys)]


def wilson(hits: int, runs: int, z: float = 1.96) -> tuple[float, float]:
    """Score interval of a share, in percent (Wilson, JASA 22, 1927)."""
    if runs == 0:
        return 0.0, 100.0
    share = hits / runs
    centre = (share + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z / (1 + z * z / runs) * math.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    return 100 * max(centre - half, 0.0), 100 * min(centre + half, 1.0)


if __name__ == "__main__":
    main()
