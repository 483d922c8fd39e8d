"""Our cold times against Nsight Compute's: the same cubins on like inputs, caches flushed, clocks as they are.

ncu runs once over a process that launches each kernel several times (`--plans`, which this script starts itself).
Wanted: within 2% for kernels of 20 us and more. Apart: a kernel of about 2 us, which event timing without batching
reads several times too long.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import EXHIBITS, SLOW_SEEDS, Bench, Clock, load, median, options, report, say, shipped, table

from kforecast.bench.header.signature import signatures
from kforecast.bench.lane import Program
from kforecast.bench.tasks.builtin import builtin_names
from kforecast.store.models import Measurement
from kforecast.tools.kernels import Named

LAUNCHES = 9
LEAST_US = 20.0
WANTED_PCT = 2.0
NCU_S = 150.0


def main() -> None:
    parser = options(__doc__, seconds=60)
    parser.add_argument("--plans", type=Path, help="launch these plans and end; what ncu looks at")
    asked = parser.parse_args()
    if asked.plans:
        return _launch(asked.plans)
    device = "cpu" if asked.dry else asked.device
    clock = Clock(asked.seconds)
    with Bench(device) as bench:
        kernels = _kernels(bench)
        rows: list[dict[str, Any]] = []
        for kernel in kernels:
            if clock.over:
                say(f"time is over: {len(kernels) - len(rows)} kernels left out")
                break
            rows.append(_ours(kernel, bench.measure(kernel, effort="normal", cap_s=2.0)))
        empty_us = getattr(bench.lane, "empty_us", None)
        ours_s = clock.elapsed
        timed = [(kernel, row) for kernel, row in zip(kernels, rows, strict=False) if row["ours_us"]]
        if asked.dry:
            readings, refusal = [[row["ours_us"]] for _, row in timed], ""
        else:
            plans = [_plan(bench, kernel, row["case"]) for kernel, row in timed]
            bench.close_device()
            readings, refusal = _ncu(plans)
    for (_, row), reading in zip(timed, readings, strict=False):
        row["ncu_us"] = median(reading)
        row["ncu_spread_pct"] = 100 * (max(reading) / min(reading) - 1)
        row["ratio"] = row["ours_us"] / row["ncu_us"]
        row["difference_us"] = row["ours_us"] - row["ncu_us"]
    long = [row for row in rows if row.get("ncu_us") and row["ncu_us"] >= LEAST_US]
    off = [100 * (row["ratio"] - 1) for row in long]
    summary = {
        "kernels_of_20_us": len(long),
        "within_2_pct": sum(abs(value) <= WANTED_PCT for value in off),
        "median_off_pct": median(off),
        "worst_off_pct": max(off, key=abs) if off else None,
        "median_difference_us": median([row["difference_us"] for row in long]),
        "empty_kernel_us": empty_us,
        "ncu": refusal or "counted",
        "seconds_ours": ours_s,
        "seconds": clock.elapsed,
    }
    columns = [
        "kernel",
        "case",
        "ours_us",
        "launch_mode",
        "ncu_us",
        "ncu_spread_pct",
        "ratio",
        "difference_us",
        "reason",
    ]
    rows.sort(key=lambda row: row.get("ncu_us") or 0.0)
    text = table(columns, [[row.get(key) for key in columns] for row in rows])
    report(asked.out, "against_ncu", device, summary, rows, f"{text}\n{summary}")
    return None


def _kernels(bench: Bench) -> list[Named]:
    """Kernels of one launch that clears nothing: ncu then counts all that we time. The short one comes first."""
    found = []
    if bench.kind == "cuda":
        found.append(load(EXHIBITS / "cuda" / "short.cu", called="short"))
    for task in builtin_names():
        for role in ("tuned", "seed"):
            if role == "seed" and task in SLOW_SEEDS:
                continue
            named = shipped(bench, task, role)
            zeroed = any(tensor.zero for tensor in named.task.tensors) or any(s.zero for s in named.kernel.scratch)
            if len(named.kernel.launches) == 1 and not zeroed:
                found.append(named)
    return found


def _ours(kernel: Named, found: Measurement | str) -> dict[str, Any]:
    row: dict[str, Any] = {"kernel": kernel.called, "case": None, "ours_us": None, "reason": ""}
    if isinstance(found, str) or found.verdict != "ok":
        return row | {"reason": found if isinstance(found, str) else f"{found.verdict}: {found.reason}"}
    case = found.cases[0]
    launches = found.environment.get("launches_per_sample", {}).get(case.case)
    return row | {"case": case.case, "ours_us": case.time_us, "batch": launches}


def _plan(bench: Bench, kernel: Named, case: str) -> dict[str, Any]:
    """What `standalone` launches: our own cubin, several times."""
    from kforecast.bench.devices.catalogue import ordinal_of
    from kforecast.bench.devices.cuda.inspection import plan_of

    parsed = signatures(kernel.kernel.source, "cuda", kernel.kernel.includes)
    program = Program(kernel.kernel, parsed, bench.lane.compile(kernel.kernel, parsed))
    chosen = next(one for one in kernel.task.timed_on("cuda") if one.name == case)
    constants: dict[str, int] = bench.lane.constants  # type: ignore[attr-defined]  # only the cuda lane comes here
    plan = plan_of(program, kernel.task, chosen, constants, ordinal_of(bench.device))
    return plan | {"launches": plan["launches"] * LAUNCHES}


def _ncu(plans: list[dict[str, Any]]) -> tuple[list[list[float]], str]:
    """Microseconds of each plan's launches, in order; or none, and why."""
    from kforecast.bench.devices.cuda import ncu
    from kforecast.bench.devices.cuda.inspection import find_tool

    tool = find_tool("ncu")
    if tool is None:
        return [], "Nsight Compute (ncu) is not on PATH"
    with tempfile.TemporaryDirectory(prefix="kforecast-ncu-") as folder:
        file, log = Path(folder) / "plans.json", Path(folder) / "log.csv"
        file.write_text(json.dumps(plans))
        command = [str(tool), "--clock-control", "none", "--cache-control", "all", "--target-processes", "all"]
        command += ["--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)]
        command += ["--metrics", "gpu__time_duration.sum", sys.executable, __file__, "--plans", str(file)]
        ran = _run(command, {**os.environ, "TMPDIR": folder})
        text = log.read_text(errors="replace") if log.exists() else ""
    times = [counted.time_us for counted in ncu.parse(text)]
    whole = len(times) // LAUNCHES
    if len(times) != LAUNCHES * len(plans):
        say(f"ncu counted {len(times)} launches of {LAUNCHES * len(plans)}: {ran[-600:]}")
    if not times:
        return [], ncu.refusal(text + ran)
    return [times[LAUNCHES * n : LAUNCHES * (n + 1)] for n in range(whole)], ""


def _run(command: list[str], environment: dict[str, str]) -> str:
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=NCU_S, env=environment)
    except subprocess.TimeoutExpired as late:
        return f"it took more than {NCU_S:g} s: {late.stderr!r}"
    return ran.stdout + ran.stderr


def _launch(file: Path) -> None:
    """In the process that ncu looks at: launch every plan."""
    from kforecast.bench.devices.cuda import standalone

    for plan in json.loads(file.read_text()):
        standalone.run(plan)


if __name__ == "__main__":
    main()
