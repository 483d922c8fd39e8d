"""Every built-in task, seed and tuned kernel, against the seed: verdict, S with its interval, times, part of the floor.

Wanted: every verdict `ok`; where the floor is bandwidth, the tuned kernel within 1.3 times of it.
"""

from __future__ import annotations

from typing import Any, Literal

from common import Bench, Clock, options, report, say, shipped, table

from kforecast.bench.tasks.builtin import builtin_kernel, builtin_names
from kforecast.bench.tasks.floor import DeviceRates, compulsory_bytes
from kforecast.store.models import Measurement, Task

WANTED = 1.3


def main() -> None:
    parser = options(__doc__, seconds=240)
    parser.add_argument("--cap", type=float, default=3.0, help="seconds of sampling a measurement (3)")
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--times", type=int, default=1, help="cases so many times as large (1)")
    parser.add_argument("--tuned-only", action="store_true", help="no seed kernels: times and floors alone")
    parser.add_argument("tasks", nargs="*", help="built-in tasks (all)")
    asked = parser.parse_args()
    device = "cpu" if asked.dry else asked.device
    clock = Clock(asked.seconds)
    rows: list[dict[str, Any]] = []
    roles: tuple[Literal["seed", "tuned"], ...] = ("tuned",) if asked.tuned_only else ("seed", "tuned")
    with Bench(device) as bench:
        for name in asked.tasks or builtin_names():
            for role in roles:
                if clock.over or builtin_kernel(name, bench.language, role) is None:
                    say(f"{name} {role}: left out")
                    continue
                candidate = shipped(bench, name, role, times=asked.times)
                seed = None if asked.tuned_only else shipped(bench, name, "seed", times=asked.times)
                found = bench.measure(candidate, seed, effort=asked.effort, deadline_s=10.0, cap_s=asked.cap)
                rows.append(_row(bench, name, role, candidate.task, found))
                say(f"{clock.elapsed:6.1f} s  {name} {role}: {rows[-1]['verdict']}")
    bound = [row for row in rows if row["role"] == "tuned" and row.get("over_floor") and row["bandwidth"]]
    late = [row["task"] for row in bound if row["over_floor"] > WANTED]
    summary = {
        "measured": len(rows),
        "ok": sum(row["verdict"] == "ok" for row in rows),
        "tuned_with_bandwidth_floor": len(bound),
        "of_those_within_1.3": len(bound) - len(late),
        "beyond_1.3": late,
        "seconds": clock.elapsed,
    }
    keys = ["task", "role", "verdict", "comparison", "S", "low", "high", "cold_us", "warm_us", "floor_pct", "floor"]
    keys += ["over_floor", "noise_pct", "blocks", "device_s"]
    text = table(keys, [[row.get(key) for key in keys] for row in rows])
    problems = [f"{row['task']} {row['role']}: {row['reason']}" for row in rows if row["reason"]]
    report(
        asked.out,
        "builtin" if asked.times == 1 else "builtin_large",
        device,
        summary,
        rows,
        "\n".join([text, *problems, str(summary)]),
    )


def _row(bench: Bench, name: str, role: str, task: Task, found: Measurement | str) -> dict[str, Any]:
    row: dict[str, Any] = {"task": name, "role": role, "floor": "", "bandwidth": False}
    if isinstance(found, str):
        return row | {"verdict": "no answer", "reason": found}
    row |= {
        "verdict": found.verdict,
        "reason": found.reason or found.quarantine or "",
        "comparison": found.comparison + (" (censored)" if found.censored else ""),
        "S": found.speedup,
        "low": None if found.log2_low is None else 2**found.log2_low,
        "high": None if found.log2_high is None else 2**found.log2_high,
        "cold_us": found.time_us,
        "warm_us": found.time_warm_us,
        "floor_pct": found.percent_of_floor,
        "noise_pct": found.noise_pct,
        "blocks": found.blocks,
        "device_s": found.device_seconds,
        "cases": [case.model_dump() for case in found.cases],
        "notes": found.notes,
    }
    if found.percent_of_floor:
        bandwidth = [_is_bandwidth(bench, task, case.case, case.floor_us) for case in found.cases]
        row["bandwidth"] = all(bandwidth)
        row["floor"] = "bandwidth" if all(bandwidth) else "mixed" if any(bandwidth) else "operations"
        # The worst case: a mean could hide one that is far from its floor.
        row["over_floor"] = max(case.time_us / case.floor_us for case in found.cases if case.time_us and case.floor_us)
    return row


def _is_bandwidth(bench: Bench, task: Task, name: str, floor_us: float | None) -> bool:
    """Whether the floor of this case is the time that its bytes take."""
    rates: DeviceRates | None = getattr(bench.lane, "rates", None)
    if rates is None or floor_us is None:
        return False
    case = next(case for case in task.timed_on(bench.kind) if case.name == name)
    l2_bytes: int = bench.lane.facts.l2_bytes  # type: ignore[attr-defined]  # only the cuda lane has rates
    memory_us = 1e6 * max(0, compulsory_bytes(task, case) - l2_bytes) / rates.bandwidth
    return memory_us >= 0.999 * floor_us


if __name__ == "__main__":
    main()
