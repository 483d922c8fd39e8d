"""A batch as a search would send it: 1,000 different kernels of every built-in task in random order, many of them bad.

Good ones: tuned kernels over their declared configurations, and seeds that are not milliseconds slow; bad ones: wrong
kernels, compile errors, kernels that crash the context. `#define VARIANT n` makes each a program of its own, so that
each is compiled anew. Baselines interleaved, fp64 check on, kernels compiled ahead on other cores, as a broker does;
`--hands` measure at once, as a broker's do, and all are warm before the clock starts. With several the device seconds
overlap, so that the device share may be above 1; the alone share is that of times in which nothing else ran there.
Every answer goes through the store, which is exported as batch.jsonl.gz.

Wanted: 40 kernels a second, every bad kernel found out, every good one `ok`.
"""

from __future__ import annotations

import gzip
import random
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import EXHIBITS, SLOW_SEEDS, Bench, Clock, load, options, quantile, report, say, shipped, table

from kforecast.bench.broker.shares import hands_for
from kforecast.bench.header.configure import configurations
from kforecast.bench.header.load import load_kernel
from kforecast.bench.tasks.builtin import builtin_kernel, builtin_names
from kforecast.bench.tasks.load import resolve_task
from kforecast.store import exchange
from kforecast.store.models import Measurement, Sizes
from kforecast.tools.kernels import Named

COMPILED_AHEAD = 64
PARTS = {"device_s": "device p50 ms", "alone_s": "alone p50 ms", "waited_s": "waited p50 ms"}
FAULTING = {
    "cuda": ("illegal_access", "trap", "device_assert", "misaligned", "out_of_bounds_far"),
    "c": ("crash_abort", "crash_null", "out_of_bounds_far"),
}


@dataclass(frozen=True)
class Recipe:
    """How to make one sort of kernel: the file, what it should earn, and one setting of its tunables."""

    sort: str
    path: Path
    expected: frozenset[str]
    settings: Sizes | None = None


@dataclass(frozen=True)
class Item:
    """One kernel of the batch."""

    recipe: Recipe
    candidate: Named
    baseline: Named


def main() -> None:
    parser = options(__doc__, seconds=90)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", nargs="*", default=None)
    parser.add_argument("--hands", type=int, default=None, help="how many measure at once (as many as a broker would)")
    asked = parser.parse_args()
    device = "cpu" if asked.dry else asked.device
    rng = random.Random(asked.seed)
    hands = asked.hands or hands_for(device)
    with Bench(device, hands=hands) as bench, tempfile.TemporaryDirectory(prefix="kforecast-batch-") as folder:
        setup = Clock(0)
        items = items_of(bench, asked.tasks or list(builtin_names()), asked.count, rng, Path(folder))
        load_s = setup.elapsed
        warm_up(bench, [item.baseline for item in items])
        warm_s = setup.elapsed - load_s
        say(f"{len(items)} kernels loaded in {load_s:.1f} s, device and baselines warm in {warm_s:.1f} s more")
        clock = Clock(asked.seconds)
        rows = list(_measured(bench, items, clock))
        seconds = clock.elapsed
        exported = _export(bench, asked.out)
    summary = _summary(rows, len(items), seconds) | {"load_s": load_s, "warm_up_s": warm_s, "hands": hands}
    report(asked.out, "batch", device, summary | exported, rows, _text(rows, summary | exported))


def warm_up(bench: Bench, kernels: Sequence[Named]) -> None:
    """Start every hand and let each measure every one of the kernels once."""
    bench.hands.get_ready()
    once = list({kernel.kernel.id: kernel for kernel in kernels}.values())
    for kernel in once:
        bench.compile_ahead(kernel.kernel)
    for kernel in once:
        bench.measure(kernel)  # what is compiled for its answers is on the disk then, for the others
    with ThreadPoolExecutor(bench.hands.count) as pool:
        for kernel in once:
            # As many at once as there are hands, all idle: each gets one.
            list(pool.map(bench.measure, [kernel] * bench.hands.count))


def items_of(bench: Bench, tasks: list[str], count: int, rng: random.Random, folder: Path) -> list[Item]:
    """The batch in its order. Of 100 kernels 3 fault, 3 do not compile, 10 are wrong; 5 are seeds, the rest tuned."""
    language, suffix = bench.language, ".cu" if bench.language == "cuda" else ".c"
    exhibits = EXHIBITS / "cuda" if language == "cuda" else EXHIBITS / "wrong"
    crashing = EXHIBITS / ("cuda" if language == "cuda" else "bad")
    wrong = sorted(exhibits.glob(f"wrong_*{suffix}" if language == "cuda" else f"*{suffix}"))
    wrong = [path for path in wrong if load(path).task.name in tasks]
    sorts = {
        # Of vector_add, all of them.
        "faulting": [_exhibit("faulting", crashing / (name + suffix)) for name in FAULTING[language]],
        "compile error": [_exhibit("compile error", crashing / f"compile_error{suffix}")],
        "wrong": [recipe for path in wrong if (recipe := _exhibit("wrong", path)).expected == {"incorrect"}],
        "seed": [
            _good("seed", path) for task in tasks if task not in SLOW_SEEDS and (path := _path(bench, task, "seed"))
        ],
        "tuned": [recipe for task in tasks for recipe in _tuned(bench, task)],
    }
    shares = {"faulting": 3, "compile error": 3, "wrong": 10, "seed": 5, "tuned": 79}
    chosen = []
    for sort, recipes in sorts.items():
        # Each recipe equally often, as far as the number allows.
        wanted = round(count * shares[sort] / 100)
        rng.shuffle(recipes)
        chosen += [recipes[n % len(recipes)] for n in range(wanted)]
    rng.shuffle(chosen)
    baselines: dict[str, Named] = {}
    items = []
    for number, recipe in enumerate(chosen):
        path = folder / f"{recipe.path.parent.name}_{recipe.path.stem}_v{number}{suffix}"
        path.write_text(f"{recipe.path.read_text()}\n#define VARIANT {number}\n")
        candidate = load(path, settings=recipe.settings, called=path.stem)
        name = candidate.task.name
        if name not in baselines:
            baselines[name] = shipped(bench, name, "tuned")
        items.append(Item(recipe, candidate, baselines[name]))
    assert len({item.candidate.kernel.id for item in items}) == len(items)
    return items


def _exhibit(sort: str, path: Path) -> Recipe:
    line = next(line for line in path.read_text().splitlines() if "expect:" in line)
    return Recipe(sort, path, frozenset(line.split("expect:")[1].split(":")[0].strip().split("|")))


def _good(sort: str, path: Path, settings: Sizes | None = None) -> Recipe:
    return Recipe(sort, path, frozenset({"ok"}), settings)


def _path(bench: Bench, task: str, role: Any) -> Path | None:
    return builtin_kernel(task, bench.language, role)


def _tuned(bench: Bench, task: str) -> Iterator[Recipe]:
    """The tuned kernel in each of its configurations."""
    path = _path(bench, task, "tuned")
    if path is not None:
        tune = load_kernel(path, resolve_task=resolve_task).tune
        for settings in configurations(tune, getattr(bench.lane, "constants", None)):
            yield _good("tuned", path, settings)


def _measured(bench: Bench, items: list[Item], clock: Clock) -> Iterator[dict[str, Any]]:
    for item in items[:COMPILED_AHEAD]:
        bench.compile_ahead(item.candidate.kernel)

    def one(item: Item) -> tuple[Measurement | str | None, float]:
        if clock.over:
            return None, 0.0
        begin = clock.elapsed
        return bench.measure(item.candidate, item.baseline, effort="quick", deadline_s=3.0), clock.elapsed - begin

    # As in a broker: others are compiled, and wait, while every hand measures.
    with ThreadPoolExecutor(3 * bench.hands.count) as pool:
        for number, (item, (found, seconds)) in enumerate(zip(items, pool.map(one, items), strict=True)):
            for later in items[number + COMPILED_AHEAD : number + COMPILED_AHEAD + 1]:
                bench.compile_ahead(later.candidate.kernel)
            if found is None:
                say(f"time is over: {len(items) - number} kernels left out")
                return
            yield _row(item, found, seconds)
            if number % 100 == 99:
                say(f"{clock.elapsed:6.1f} s  {number + 1} kernels, {(number + 1) / clock.elapsed:.1f} a second")


def _row(item: Item, found: Measurement | str, seconds: float) -> dict[str, Any]:
    verdict = "no answer" if isinstance(found, str) else found.verdict
    row = {
        "kernel": item.candidate.called,
        "task": item.candidate.task.name,
        "sort": item.recipe.sort,
        "verdict": verdict,
        "as_expected": verdict in item.recipe.expected,
        "seconds": round(seconds, 5),
    }
    if isinstance(found, str):
        return row | {"reason": found}
    turns = found.environment.get("turns", {"alone_s": found.device_seconds, "waited_s": 0.0})
    return row | {
        "reason": (found.reason or found.quarantine or "")[:300],
        "device_s": round(found.device_seconds, 5),
        "alone_s": round(turns["alone_s"], 5),
        "waited_s": round(turns["waited_s"], 5),
        "log2_speedup": found.log2_speedup,
        "comparison": found.comparison,
        "censored": found.censored,
        "time_us": found.time_us,
    }


def _summary(rows: list[dict[str, Any]], wanted: int, seconds: float) -> dict[str, Any]:
    failing = [row for row in rows if row["sort"] not in ("seed", "tuned")]
    return {
        "kernels": len(rows),
        "left_out": wanted - len(rows),
        "tasks": len({row["task"] for row in rows}),
        "seconds": seconds,
        "kernels_per_second": len(rows) / seconds,
        "device_share": sum(row.get("device_s", 0.0) for row in rows) / seconds,
        "alone_share": sum(row.get("alone_s", 0.0) for row in rows) / seconds,
        "waited_ms": quantile([1e3 * row.get("waited_s", 0.0) for row in rows], 0.5),
        "failing_pct": 100 * len(failing) / max(len(rows), 1),
        "faulting_pct": 100 * sum(row["sort"] == "faulting" for row in rows) / max(len(rows), 1),
        "as_expected": sum(row["as_expected"] for row in rows),
    }


def _text(rows: list[dict[str, Any]], summary: dict[str, Any]) -> str:
    def spread(key: str) -> str:
        groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            if key == "sort" or row["verdict"] == "ok":
                groups[row[key]].append(row)
        lines = []
        for name, group in sorted(groups.items()):
            ms = [1e3 * row["seconds"] for row in group]
            parts = [quantile([1e3 * row.get(key, 0.0) for row in group], 0.5) for key in PARTS]
            verdicts = ", ".join(f"{verdict} {n}" for verdict, n in Counter(row["verdict"] for row in group).items())
            lines.append([name, len(group), *(quantile(ms, q) for q in (0.1, 0.5, 0.9)), max(ms), *parts, verdicts])
        columns = ["by " + key, "kernels", "p10 ms", "p50 ms", "p90 ms", "max ms", *PARTS.values(), "verdicts"]
        return table(columns, lines)

    odd = [row for row in rows if not row["as_expected"]]
    told = [f"not as expected: {row['kernel']} ({row['sort']}): {row['verdict']}: {row['reason']}" for row in odd[:20]]
    lines = [f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}" for key, value in summary.items()]
    return "\n".join([spread("task"), "", spread("sort"), *told, "", *lines])


def _export(bench: Bench, out: Path) -> dict[str, Any]:
    """The store's nouns, compressed: kernels, measurements and tasks for whoever trains on them."""
    out.mkdir(parents=True, exist_ok=True)
    packed = out / "batch.jsonl.gz"
    with tempfile.TemporaryDirectory(prefix="kforecast-export-") as folder:
        plain = Path(folder) / "batch.jsonl"
        counts = exchange.export(bench.store, plain)
        with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=9) as target:
            shutil.copyfileobj(source, target)
    return {"exported": counts, "exported_mb": packed.stat().st_size / 1e6}


if __name__ == "__main__":
    main()
