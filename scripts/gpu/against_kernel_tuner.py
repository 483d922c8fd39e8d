"""The same 120 softmax configurations through kernel_tuner 1.5 and through us: kernels a second, spread of repeats.

kernel_tuner: its cupy backend, answers verified, its own defaults otherwise. We: the whole measurement of a batch
(fp64 check, cold caches, interleaved baseline, stored), compiled ahead on the other cores. One case, R=4096 C=2048;
both tools twice, the first time with empty compile caches, which is the time that counts. Started by
against_kernel_tuner.sh, which installs the wheels.
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import Bench, Clock, load, median, options, quantile, report, say, table

from kforecast.bench.header.configure import configurations
from kforecast.bench.header.load import load_kernel
from kforecast.bench.tasks.builtin import builtin_kernel, builtin_task
from kforecast.bench.tasks.load import resolve_task
from kforecast.store.models import Case, Sizes

SOURCE = Path(__file__).parent / "softmax_tunable.cu"
SIZES: Sizes = {"R": 4096, "C": 2048}
PASSES = 2


def main() -> None:
    parser = options(__doc__, seconds=150)
    parser.add_argument("--only", choices=["ours", "kernel_tuner"])
    asked = parser.parse_args()
    device = "cpu" if asked.dry else asked.device
    clock = Clock(asked.seconds)
    path = builtin_kernel("softmax_rows", "c", "tuned") if asked.dry else SOURCE
    assert path is not None
    found: dict[str, list[dict[str, Any]]] = {}
    if asked.only != "kernel_tuner":
        found["kforecast"] = _ours(device, path, clock)
    if asked.only != "ours" and not asked.dry:
        found["kernel_tuner"] = _theirs(clock)
    rows, lines = [], []
    summary: dict[str, Any] = {"seconds": clock.elapsed}
    for tool, passes in found.items():
        summary[tool] = numbers = _numbers(passes)
        lines.append([tool, *(numbers[key] for key in _COLUMNS)])
        rows += [{"tool": tool, "pass": n, **row} for n, one in enumerate(passes) for row in one["rows"]]
    report(asked.out, "against_kernel_tuner", device, summary, rows, table(["tool", *_COLUMNS], lines))


_COLUMNS = (
    "configurations",
    "right",
    "seconds",
    "a_second",
    "again_s",
    "repeat_p50_pct",
    "repeat_p90_pct",
    "repeat_S_p50_pct",
)


def _numbers(passes: list[dict[str, Any]]) -> dict[str, Any]:
    """Kernels a second of the first pass; how far the two passes' times of one configuration lie apart."""
    first = passes[0]
    times = [{str(row["settings"]): row["time_us"] for row in one["rows"] if row["time_us"]} for one in passes]
    ratios = [{str(row["settings"]): row.get("S") for row in one["rows"] if row.get("S")} for one in passes]
    apart, apart_s = _apart(times), _apart(ratios)
    return {
        "configurations": len(first["rows"]),
        "right": len(times[0]),
        "seconds": first["seconds"],
        "a_second": len(first["rows"]) / first["seconds"],
        "again_s": passes[1]["seconds"] if len(passes) > 1 else None,
        "repeat_p50_pct": median(apart),
        "repeat_p90_pct": quantile(apart, 0.9),
        "repeat_S_p50_pct": median(apart_s),
        "best": min(first["rows"], key=lambda row: row["time_us"] or math.inf, default=None),
    }


def _apart(passes: list[dict[str, float]]) -> list[float]:
    """|log ratio| of two passes in percent, for each configuration that both have."""
    if len(passes) < 2:
        return []
    a, b = passes[:2]
    return [100 * abs(math.log(b[key] / a[key])) for key in a if key in b]


def _ours(device: str, path: Path, clock: Clock) -> list[dict[str, Any]]:
    passes = []
    with Bench(device) as bench:
        task = builtin_task("softmax_rows")
        sizes = SIZES if bench.kind == "cuda" else {"R": 64, "C": 512}
        task = task.model_copy(update={"timed": {bench.kind: (Case(sizes=sizes),)}})
        loaded = load_kernel(path, resolve_task=resolve_task)
        settings = list(configurations(loaded.tune))
        baseline = load(path, task=task, called="default")
        bench.measure(baseline)  # the broker is warm
        for number in range(PASSES):
            begin = clock.elapsed
            kernels = [load(path, task=task, settings=chosen) for chosen in settings]
            for kernel in kernels:
                bench.compile_ahead(kernel.kernel)
            rows = []
            for chosen, kernel in zip(settings, kernels, strict=True):
                if clock.over:
                    break
                one = bench.measure(kernel, baseline)
                row: dict[str, Any] = {"settings": chosen, "time_us": None, "verdict": "no answer"}
                if isinstance(one, str):
                    row["reason"] = one
                else:
                    row |= {"time_us": one.time_us, "S": one.speedup, "verdict": one.verdict, "reason": one.reason}
                rows.append(row)
            passes.append({"rows": rows, "seconds": clock.elapsed - begin})
            say(f"{clock.elapsed:6.1f} s  kforecast, pass {number + 1}: {len(rows)} configurations")
    return passes


def _theirs(clock: Clock) -> list[dict[str, Any]]:
    import numpy as np

    generator = np.random.default_rng(1)
    x = generator.standard_normal((SIZES["R"], SIZES["C"]), dtype=np.float32)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    answer = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
    tunables = {
        name: list(values) for name, values in load_kernel(SOURCE, resolve_task=resolve_task).tune.values.items()
    }
    arguments = [x, np.zeros_like(x), np.int32(SIZES["R"]), np.int32(SIZES["C"])]
    answers = [None, answer, None, None]
    _tune({name: values[:1] for name, values in tunables.items()}, arguments, answers)  # context and imports
    passes = []
    for number in range(PASSES):
        if clock.over:
            break
        with tempfile.TemporaryDirectory(prefix="cupy-cache-") as folder:
            os.environ["CUPY_CACHE_DIR"] = folder  # cupy keeps what it compiled
            begin = clock.elapsed
            results = _tune(tunables, arguments, answers)
            seconds = clock.elapsed - begin
        rows = []
        for result in results:
            times = result.get("times")
            time_us = 1e3 * statistics.median(times) if times else None
            rows.append({"settings": {name: result[name] for name in tunables}, "time_us": time_us})
        passes.append({"rows": rows, "seconds": seconds})
        say(f"{clock.elapsed:6.1f} s  kernel_tuner, pass {number + 1}: {len(rows)} configurations")
    return passes


def _tune(tunables: dict[str, list[int]], arguments: list[Any], answers: list[Any]) -> list[dict[str, Any]]:
    import kernel_tuner  # type: ignore[import-not-found]  # carried to the GPU machine alone

    with contextlib.redirect_stdout(sys.stderr):
        results, _ = kernel_tuner.tune_kernel(
            "softmax_rows",
            str(SOURCE),
            (SIZES["R"],),
            arguments,
            tunables,
            grid_div_x=[],
            block_size_names=["BLOCK"],
            answer=answers,
            atol=1e-6,
            lang="CUPY",
            compiler_options=["-std=c++17"],
            quiet=True,
        )
    return list(results)


if __name__ == "__main__":
    main()
