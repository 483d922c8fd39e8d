"""How long one forecast takes with facts cached, in a store of measured kernels: p50 and p90.

usage: bench_forecast.py [--kernels 100] [--rounds 40]
A temporary store holds N made-up measurements of softmax_rows kernels on cpu; nothing is measured. Not cached: the
candidate is compiled.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kforecast-bench-") as folder:
        for name in ("DB", "CACHE_DIR", "RUNTIME_DIR"):
            os.environ[f"KFORECAST_{name}"] = f"{folder}/{name.lower()}"
        run(Path(folder), arguments.kernels, arguments.rounds)


def run(folder: Path, count: int, rounds: int) -> None:
    from kforecast.store.database import Store
    from kforecast.tools.forecast import forecast
    from kforecast.tools.learned import train_learned

    own = {"p_correct": 0.9, "p_bins": [0, 0, 0, 0.1, 0.5, 0.3, 0.1, 0], "forecaster": "bench"}
    with Store.open() as store:
        fill(store, folder, count)
        train_learned()
        candidates = [variant(folder, "softmax_rows", number) for number in range(count, count + rounds)]

        def measure(name: str, **more: Any) -> None:
            report(name, timed([partial(forecast, path, store=store, **more) for path in candidates]))

        measure("learned, facts not cached")
        measure("learned, facts cached")
        measure("base-rate, facts cached", backend="base-rate")
        measure("own, facts cached", own=own)
        measure("learned with brief, cached", detail="brief")


def variant(folder: Path, task: str, number: int) -> str:
    """A kernel file that differs from the seed in one constant and a few repeated lines."""
    from kforecast.bench.tasks.builtin import builtin_kernel

    seed = builtin_kernel(task, "c", "seed")
    assert seed is not None
    path = folder / f"{task}_{number}.c"
    lines = "\n".join(f"static int unused_{number}_{i}(int a) {{ return a * {i}; }}" for i in range(number % 7))
    path.write_text(f"{seed.read_text()}\n{lines}\nstatic const int variant = {number};\n")
    return str(path)


def fill(store: object, folder: Path, count: int) -> None:
    from kforecast.bench.devices.cpu.machine import device_id
    from kforecast.store import kernels, measurements, tasks
    from kforecast.store.clock import utc_now
    from kforecast.store.database import Store
    from kforecast.store.identity import new_id
    from kforecast.store.models import Measurement
    from kforecast.tools.kernels import Asked, find_baseline, load_file

    assert isinstance(store, Store)
    rng = np.random.default_rng(0)
    for task in ("softmax_rows", "rmsnorm"):
        for number in range(count):
            found = load_file(variant(folder, task, number), Asked())
            baseline, _ = find_baseline(store, "seed", found)
            assert baseline is not None
            tasks.save(store, found.task)
            kernels.save(store, found.kernel)
            kernels.save(store, baseline.kernel)
            log2 = float(rng.normal(0, 0.7))
            measurements.save(
                store,
                Measurement(
                    id=new_id("m"), kernel_id=found.kernel.id, baseline_id=baseline.kernel.id, task_id=found.task.id,
                    task_name=task, device="cpu", device_id=device_id(), lane="host-code", launch_mode="process",
                    effort="quick", verdict="ok", reason="", log2_speedup=log2, log2_low=log2 - 0.02,
                    log2_high=log2 + 0.02, time_us=500 * 2.0**-log2, baseline_us=500.0, percent_of_floor=20.0,
                    created_at=utc_now(),
                ),
            )  # fmt: skip


def timed(calls: Sequence[Callable[[], object]]) -> np.ndarray:
    """(n, 2) milliseconds a call: by the clock, and of this process's CPU time, which others do not stretch."""
    found = []
    for call in calls:
        started = time.perf_counter(), time.process_time()
        call()
        found.append((time.perf_counter() - started[0], time.process_time() - started[1]))
    return np.array(found) * 1e3


def report(name: str, milliseconds: np.ndarray) -> None:
    p50, p90 = np.quantile(milliseconds, [0.5, 0.9], axis=0)
    print(f"{name:26}  p50 {p50[0]:6.1f} ms (CPU {p50[1]:5.1f})   p90 {p90[0]:6.1f} ms   {len(milliseconds)} calls")


if __name__ == "__main__":
    main()
