"""Where the time of a measurement goes: milliseconds by helper process and message, for the tuned kernel of each task.

Each kernel is measured against the task's seed (its tuned one where the seed is milliseconds slow), warm, `quick`.
Then kernels that crash the context: how long the fault takes to come, the process to be reaped, the spare to take over.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import EXHIBITS, SLOW_SEEDS, Bench, Clock, load, median, options, report, shipped, table

from kforecast.bench.devices.cuda.helpers import Helper, Launchers
from kforecast.bench.tasks.builtin import builtin_kernel, builtin_names
from kforecast.store.models import Measurement

FAULTING = ("illegal_access", "trap", "device_assert", "misaligned")
_spent: dict[str, float] = defaultdict(float)


def main() -> None:
    parser = options(__doc__, seconds=60)
    parser.add_argument("--tasks", nargs="*", default=None)
    parser.add_argument("--repeats", type=int, default=4)
    asked = parser.parse_args()
    device = "cpu" if asked.dry else asked.device
    clock = Clock(asked.seconds)
    _watch()
    rows: list[dict[str, Any]] = []
    with Bench(device) as bench, tempfile.TemporaryDirectory(prefix="kforecast-spent-") as folder:
        for task in asked.tasks or builtin_names():
            path = builtin_kernel(task, bench.language, "tuned")
            if path is None or clock.over:
                continue
            baseline = shipped(bench, task, "tuned" if task in SLOW_SEEDS else "seed")
            bench.measure(baseline)
            for number in range(asked.repeats):
                copy = Path(folder) / f"{task}_v{number}{path.suffix}"
                copy.write_text(f"{path.read_text()}\n#define VARIANT {number}\n")
                _spent.clear()
                begin = time.monotonic()
                found = bench.measure(load(copy, called=copy.stem), baseline)
                seconds = time.monotonic() - begin
                rows.append(_row(task, number, seconds, found))
        for name in FAULTING if bench.kind == "cuda" else ():
            for number in range(asked.repeats):
                if clock.over:
                    continue
                path = EXHIBITS / "cuda" / f"{name}.cu"
                copy = Path(folder) / f"{name}_v{number}.cu"
                copy.write_text(f"{path.read_text()}\n#define VARIANT {number}\n")
                named = load(copy, called=copy.stem)
                _spent.clear()
                begin = time.monotonic()
                found = bench.measure(named)
                rows.append(_row(name, number, time.monotonic() - begin, found))
    keys = sorted({key for row in rows for key in row["spent_ms"]})
    lines = []
    for task in dict.fromkeys(row["task"] for row in rows):
        warm = [row for row in rows if row["task"] == task and row["number"]]
        if warm:
            of = {key: median([row["spent_ms"].get(key, 0.0) for row in warm]) for key in keys}
            outside = [row["ms"] - sum(row["spent_ms"].values()) for row in warm]
            lines.append([task, median([r["ms"] for r in warm]), median([r["device_ms"] for r in warm]),
                          *(of[key] for key in keys), median(outside), warm[0]["verdict"]])  # fmt: skip
    text = table(["task", "ms", "device ms", *keys, "elsewhere", "verdict"], lines)
    report(asked.out, "spent", device, {"seconds": clock.elapsed, "unit": "ms, median of warm runs"}, rows, text)


def _row(task: str, number: int, seconds: float, found: Measurement | str) -> dict[str, Any]:
    known = isinstance(found, Measurement)
    return {
        "task": task,
        "number": number,
        "ms": 1e3 * seconds,
        "device_ms": 1e3 * found.device_seconds if isinstance(found, Measurement) else None,
        "verdict": found.verdict if isinstance(found, Measurement) else found,
        "blocks": found.blocks if isinstance(found, Measurement) else None,
        "time_us": found.time_us if known and isinstance(found, Measurement) else None,
        "spent_ms": {key: 1e3 * value for key, value in _spent.items()},
    }


def _watch() -> None:
    ask, end, replace = Helper.ask, Helper._end, Launchers._replace

    def asked(self: Helper, verb: str, **fields: Any) -> dict[str, Any]:
        reap = f"{self.role} reap"
        reaped = _spent[reap]
        try:
            with _counted(f"{self.role} {verb}"):
                return ask(self, verb, **fields)
        finally:  # a process that failed is reaped before its answer is given
            _spent[f"{self.role} {verb}"] -= _spent[reap] - reaped

    def ended(self: Helper) -> None:
        with _counted(f"{self.role} reap"):
            end(self)

    def replaced(self: Launchers, handle: str) -> None:
        with _counted("take over, all"):
            replace(self, handle)

    Helper.ask, Helper._end = asked, ended  # type: ignore[method-assign]
    Launchers._replace = replaced  # type: ignore[method-assign]


@contextmanager
def _counted(what: str) -> Iterator[None]:
    begin = time.monotonic()
    try:
        yield
    finally:
        _spent[what] += time.monotonic() - begin


if __name__ == "__main__":
    main()
