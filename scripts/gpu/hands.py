"""A/A runs while other hands work off a noisy batch, faulting kernels included: is whoever times really alone?

Every run compares a kernel with itself, on all hands alike: in turn a few runs with nothing beside them and as many
beside a batch as `batch.py` has it, whose kernels copy, compile, crash and hold the device as they please. Wanted:
beside others the interval covers 1 as often and is as narrow, and the times are the same but for the noise of time
itself. `ratio` is that of a kernel's median times beside and without others, its geometric mean over the kernels.
"""

from __future__ import annotations

import itertools
import math
import random
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aa import in_order, kernels_of, numbers, row_of
from batch import Item, items_of, warm_up
from common import Bench, Clock, median, options, report, say, table

from kforecast.bench.broker.shares import HANDS
from kforecast.bench.tasks.builtin import builtin_names
from kforecast.store.models import Measurement

IN_A_ROW = 6
"""Runs of one sort before the other's turn: the device's clocks and warmth are much the same for both."""


SORTS = {"without others": False, "beside others": True}


def main() -> None:
    parser = options(__doc__, seconds=60)
    parser.add_argument("--hands", type=int, default=HANDS, help=f"how many measure at once ({HANDS})")
    parser.add_argument("--kernels", type=int, default=8, help="kernels for A/A runs (8)")
    parser.add_argument("--runs", type=int, default=2000, help="at most so many A/A runs (2000)")
    parser.add_argument("--effort", default="quick")
    parser.add_argument("--tasks", nargs="*", default=None, help="of the batch beside (all)")
    asked = parser.parse_args()
    device = "cpu" if asked.dry else asked.device
    rng = random.Random(1)
    with Bench(device, hands=asked.hands) as bench, tempfile.TemporaryDirectory(prefix="kforecast-hands-") as folder:
        kernels = kernels_of(bench)[: asked.kernels]
        noise = itertools.cycle(items_of(bench, asked.tasks or list(builtin_names()), 300, rng, Path(folder)))
        warm_up(bench, kernels)
        say("all hands are warm")
        clock = Clock(asked.seconds)
        order = iter(in_order(kernels, asked.runs, rng))
        rows: list[dict[str, Any]] = []
        beside: Counter[str] = Counter()
        for noisy in itertools.cycle((False, True)):
            chunk = list(itertools.islice(order, IN_A_ROW))
            if clock.over or not chunk:
                break
            begin = clock.elapsed
            with _noise(bench, noise, beside if noisy else None):
                for kernel in chunk:
                    if clock.over:
                        break
                    found = bench.measure(kernel, kernel, effort=asked.effort)
                    rows.append({"kernel": kernel.called, "beside": noisy, **row_of(found), **_turns(found)})
            say(f"{begin:6.1f} s  {len(rows)} runs, {sum(beside.values())} kernels beside them")
    text, summary = _said(rows)
    facts = {"hands": asked.hands, "seconds": clock.elapsed, "effort": asked.effort, "beside": dict(beside)}
    report(asked.out, "hands", device, {**facts, **summary}, rows, f"{text}\n{facts}")


@contextmanager
def _noise(bench: Bench, items: Iterator[Item], verdicts: Counter[str] | None) -> Iterator[None]:
    """Inside the block all hands but one work off the batch; verdicts: counted here, None for no noise."""
    if verdicts is None:
        yield
        return
    stop, mutex = threading.Event(), threading.Lock()

    def work() -> None:
        while not stop.is_set():
            with mutex:
                item = next(items)
            found = bench.measure(item.candidate, item.baseline, effort="quick", deadline_s=3.0)
            with mutex:
                verdicts["no answer" if isinstance(found, str) else found.verdict] += 1

    with ThreadPoolExecutor(max(1, bench.hands.count - 1)) as pool:
        working = [pool.submit(work) for _ in range(bench.hands.count - 1)]
        try:
            yield
        finally:
            stop.set()
        for one in working:
            one.result()


def _turns(found: Measurement | str) -> dict[str, float | None]:
    turns: dict[str, float] = {} if isinstance(found, str) else found.environment.get("turns", {})
    return {"waited_s": turns.get("waited_s"), "alone_s": turns.get("alone_s")}


def _said(rows: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    lines, ratios = [], {}
    for name in sorted({row["kernel"] for row in rows}):
        quiet, loud = ([row for row in _sort(rows, word) if row["kernel"] == name] for word in SORTS)
        before, after = (median([row["time_us"] for row in some if row["time_us"]]) for some in (quiet, loud))
        if before and after:
            ratios[name] = after / before
        noise = [numbers(some)["noise_pct"] for some in (quiet, loud)]
        lines.append([name, len(quiet), len(loud), before, after, ratios.get(name), *noise])
    columns = ["kernel", "runs", "beside", "us", "us beside", "ratio", "noise %", "noise % beside"]
    groups = {word: numbers(_sort(rows, word)) for word in SORTS}
    keys = ("coverage_pct", "half_width_pct", "false_pct", "noise_pct")
    second = [
        [word, of["runs"], "{:.0f}..{:.0f}".format(*of["coverage_95"]), *(of[key] for key in keys)]
        for word, of in groups.items()
    ]
    logs = [math.log(ratio) for ratio in ratios.values()]
    summary = {
        "ratio": math.exp(sum(logs) / len(logs)) if logs else None,
        "ratio_least": min(ratios.values(), default=None),
        "ratio_most": max(ratios.values(), default=None),
        "waited_ms": median([1e3 * row["waited_s"] for row in rows if row["beside"] and row["waited_s"] is not None]),
        "not_ok": sum(row["verdict"] != "ok" for row in rows),
        **groups,
    }
    told = [f"{key}: {value:.5g}" for key, value in summary.items() if isinstance(value, (int, float))]
    parts = [table(columns, lines), "", table(["A/A runs", "runs", "95% CI", *keys], second), "", *told]
    return "\n".join(parts), summary


def _sort(rows: list[dict[str, Any]], word: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["beside"] == SORTS[word]]


if __name__ == "__main__":
    main()
