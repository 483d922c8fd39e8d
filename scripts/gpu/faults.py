"""300 runs, a tenth of them kernels that crash or hang: what they leave behind, and what they do to the honest ones.

The honest kernels run alone first and last, and among the bad ones in between. Wanted: every run its verdict, no
process and no device memory left after closing, and the honest kernels' times unchanged.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from common import EXHIBITS, Bench, Clock, load, options, report, say, shipped, table

from kforecast.bench.devices.catalogue import ordinal_of
from kforecast.store.models import Measurement
from kforecast.tools.kernels import Named

HONEST = ("vector_add", "softmax_rows", "transpose", "gemv", "sum_all", "stencil2d")
CRASHING = {
    "cuda": ("illegal_access", "trap", "device_assert", "misaligned", "out_of_bounds_far", "stack_overflow"),
    "c": ("crash_abort", "crash_null", "out_of_bounds_far"),
}
HANGING = {"cuda": ("endless", "barrier_deadlock"), "c": ("hang", "sleeps_forever")}
OURS = "kforecast.bench."
_T = TypeVar("_T")


def main() -> None:
    parser = options(__doc__, seconds=150)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument(
        "--hang-deadline", type=float, default=0.5, help="seconds until a hanging kernel is ended (0.5)"
    )
    asked = parser.parse_args()
    device = "cpu" if asked.dry else asked.device
    rng = random.Random(1)
    before = _left(device)
    clock = Clock(asked.seconds)
    with Bench(device) as bench:
        honest = [shipped(bench, task, "tuned") for task in HONEST]
        bad = _bad(bench, max(asked.runs // 10, 1))
        quiet = max(asked.runs // 10, len(honest))
        for kernel in honest:
            bench.measure(kernel)  # warm: compiled, helpers started, contents made
        among = [(kernel, 3.0) for kernel in islice(_cycle(honest), asked.runs - len(bad))]
        among += [(kernel, asked.hang_deadline if kernel.called in HANGING[bench.language] else 3.0) for kernel in bad]
        rng.shuffle(among)
        alone = [(kernel, 3.0) for kernel in islice(_cycle(honest), quiet)]
        rows = []
        for phase, runs in (("alone", alone), ("among", among), ("alone", alone)):
            for kernel, deadline_s in runs:
                if clock.over:
                    say("time is over")
                    break
                begin = time.monotonic()
                found = bench.measure(kernel, deadline_s=deadline_s)
                rows.append(_row(phase, kernel, found, time.monotonic() - begin))
            say(f"{clock.elapsed:6.1f} s  {phase}: {len(rows)} runs so far")
        held = _left(device)
    after = _settled(device, before)
    kernels = [_compared(rows, kernel.called) for kernel in honest]
    compared = [kernel for kernel in kernels if kernel["ratio"]]
    center = fmean(math.log(kernel["ratio"]) for kernel in compared) if compared else 0.0
    half = math.hypot(*(kernel["half"] for kernel in compared)) / len(compared) if compared else math.inf
    summary: dict[str, Any] = {
        "runs": sum(row["phase"] == "among" for row in rows),
        "bad": sum(row["kernel"] in CRASHING[bench.language] + HANGING[bench.language] for row in rows),
        "verdicts": dict(Counter(f"{row['kind']}: {row['verdict']}" for row in rows)),
        "unexpected": sum(not row["as_expected"] for row in rows),
        "ratio_with_faults": math.exp(center),
        "ratio_95": [math.exp(center - half), math.exp(center + half)],
        "processes_left": sorted(set(after["processes"]) - set(before["processes"])),
        "memory_before_mb": before["memory_mb"],
        "memory_while_open_mb": held["memory_mb"],
        "memory_after_mb": after["memory_mb"],
        "gpu_processes_after": after["gpu_processes"],
        "seconds": clock.elapsed,
    }
    columns = ["honest kernel", "alone", "among", "us alone", "us among", "ratio", "low", "high"]
    text = table(
        columns, [[kernel[key] for key in ("kernel", "n", "m", "a", "b", "ratio", "low", "high")] for kernel in kernels]
    )
    odd = [row for row in rows if not row["as_expected"]]
    told = [f"unexpected: {row['kernel']}, {row['phase']}: {row['verdict']}: {row['reason'][:200]}" for row in odd[:8]]
    text = "\n".join([text, _seconds(rows), *told, *(f"{key}: {value}" for key, value in summary.items())])
    report(asked.out, "faults", device, summary, rows, text)


def _cycle(things: Sequence[_T]) -> Iterator[_T]:
    while True:
        yield from things


def _bad(bench: Bench, count: int) -> list[Named]:
    """Two crashing kernels for each that hangs: a hang costs its whole deadline."""
    folder = EXHIBITS / ("cuda" if bench.language == "cuda" else "bad")
    crashing, hanging = _cycle(CRASHING[bench.language]), _cycle(HANGING[bench.language])
    names = [next(hanging if number % 3 == 2 else crashing) for number in range(count)]
    suffix = ".cu" if bench.language == "cuda" else ".c"
    return [load(folder / (name + suffix), called=name) for name in names]


def _row(phase: str, kernel: Named, found: Measurement | str, seconds: float) -> dict[str, Any]:
    hangs = kernel.called in HANGING["cuda"] + HANGING["c"]
    crashes = kernel.called in CRASHING["cuda"] + CRASHING["c"]
    kind, wanted = ("hanging", "timeout") if hangs else ("crashing", "crashed") if crashes else ("honest", "ok")
    verdict = "no answer" if isinstance(found, str) else found.verdict
    row = {"phase": phase, "kernel": kernel.called, "kind": kind, "verdict": verdict, "seconds": round(seconds, 4)}
    row["as_expected"] = verdict == wanted
    if isinstance(found, str):
        return row | {"reason": found, "time_us": None}
    return row | {"reason": found.reason[:200], "time_us": found.time_us}


def _compared(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """One honest kernel's mean time among the bad ones over its mean time alone, geometric means."""
    timed = [row for row in rows if row["kernel"] == name and row["time_us"]]
    logs = {phase: [math.log(r["time_us"]) for r in timed if r["phase"] == phase] for phase in ("alone", "among")}
    alone, among = logs["alone"], logs["among"]
    if not alone or not among:
        nothing = dict.fromkeys(("a", "b", "ratio", "low", "high"))
        return {"kernel": name, "n": len(alone), "m": len(among), **nothing}
    (a, half_a), (b, half_b) = _mean(alone), _mean(among)
    half = math.hypot(half_a, half_b)
    return {
        "kernel": name,
        "n": len(alone),
        "m": len(among),
        "a": math.exp(a),
        "b": math.exp(b),
        "ratio": math.exp(b - a),
        "low": math.exp(b - a - half),
        "high": math.exp(b - a + half),
        "half": half,
    }


def _mean(values: list[float]) -> tuple[float, float]:
    """The mean and the half-width of its 95% interval, by the normal approximation."""
    if len(values) < 2:
        return fmean(values) if values else 0.0, math.inf
    center = fmean(values)
    variance = sum((value - center) ** 2 for value in values) / (len(values) - 1)
    return center, 1.96 * math.sqrt(variance / len(values))


def _seconds(rows: list[dict[str, Any]]) -> str:
    kinds = sorted({row["kind"] for row in rows})
    lines = [[kind, [row["seconds"] for row in rows if row["kind"] == kind]] for kind in kinds]
    return table(["kind", "runs", "mean s", "most s"], [[kind, len(s), fmean(s), max(s)] for kind, s in lines])


def _left(device: str) -> dict[str, Any]:
    """Our helper processes that live, and the device's memory in use."""
    found: dict[str, Any] = {"processes": _helpers(), "memory_mb": None, "gpu_processes": []}
    if device != "cpu":
        from kforecast.bench.devices.cuda.monitor import Monitor

        monitor = Monitor(ordinal_of(device))
        used = monitor.memory_used()
        found |= {"memory_mb": None if used is None else used / 1e6, "gpu_processes": monitor.processes()}
    return found


def _helpers() -> list[str]:
    """Command lines of processes that run a module of the bench, children of anybody."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # ended meanwhile, or somebody else's
        if any(word.startswith(OURS) for word in words) and not any("languages.cuda.worker" in word for word in words):
            found.append(f"{path.parent.name}: {' '.join(words[:5])}")
    return found


def _settled(device: str, before: dict[str, Any]) -> dict[str, Any]:
    """What is left once the driver has taken everything back, or after two seconds."""
    until = time.monotonic() + 2.0
    while True:
        after = _left(device)
        same = after["processes"] == before["processes"] and after["memory_mb"] == before["memory_mb"]
        if same or time.monotonic() > until:
            return after
        time.sleep(0.1)


if __name__ == "__main__":
    main()
