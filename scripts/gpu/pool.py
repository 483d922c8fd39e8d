"""Record a pool for replays: thousands of different kernels of a dozen tasks, measured once each.

On the GPU machine, from the checkout's root, in one call of at most 250 s:

    scripts/gpu/run.sh pool --seconds 225        results: $OUT/pool.json, pool.jsonl.gz

The kernels were proposed without a GPU (`scripts/propose_pool.py`) and lie beside this, in `pool.jsonl.gz`: children
and grandchildren, by named edits and tunables, of seed kernels, tuned ones and rewrites between them. They come in
random order, 210 of each of the first eight tasks, then the others, so a run that is cut short holds what it has; it
says how far it came. Each is measured with effort `quick` against the task's tuned kernel. Many are wrong: that is
part of the pool.

The result is an export with one line more a kernel, `origin`: its parent and the idea. It becomes
`docs/results/h200_pool.jsonl.gz`, for `--device replay:…` and `scripts/replay_search.py`.
"""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import Bench, Clock, Named, options, quantile, report, say, table

from kforecast.bench.tasks.builtin import builtin_kernel, builtin_task
from kforecast.store import exchange
from kforecast.store.models import Kernel, Measurement
from kforecast.tools.kernels import stamp
from kforecast.tools.search.generators.edits import EditsGenerator

FIRST_TASKS = 8
FIRST = 210
COMPILED_AHEAD = 64
PROPOSED = Path(__file__).parent / "pool.jsonl.gz"


@dataclass(frozen=True)
class Item:
    """A kernel of the pool, and the place of its parent among those of its task; -1 for the seed."""

    task: str
    place: int
    parent: int
    idea: str
    tag: str
    candidate: Named


def main() -> None:
    parser = options(__doc__, seconds=225)
    parser.add_argument("--tasks", nargs="*", default=None)
    parser.add_argument("--first", type=int, default=FIRST, help=f"kernels of each of the first tasks ({FIRST})")
    parser.add_argument("--cap", type=float, default=None, help="seconds of sampling a kernel at most")
    asked = parser.parse_args()
    clock = Clock(asked.seconds)
    device = "cpu" if asked.dry else asked.device
    with Bench(device) as bench:
        items = [item for item in (_dry() if asked.dry else _proposed()) if not asked.tasks or item.task in asked.tasks]
        ordered = _ordered(items, asked.first)
        baselines = {item.task: item.candidate for item in items if item.place == (0 if asked.dry else 1)}
        load_s = clock.elapsed
        for item in ordered[:COMPILED_AHEAD]:
            bench.compile_ahead(item.candidate.kernel)
        for baseline in baselines.values():
            found = bench.measure(baseline, deadline_s=3.0)
            if isinstance(found, str) or found.verdict != "ok":
                say(f"{baseline.called}: {found if isinstance(found, str) else found.reason}")
        warm_s = clock.elapsed - load_s
        say(f"{len(items)} kernels loaded in {load_s:.1f} s, device and baselines warm in {warm_s:.1f} s more")
        measured = dict(_measured(bench, ordered, baselines, clock, asked.cap))
        seconds = clock.elapsed - load_s - warm_s
        exported = _export(bench, items, measured, asked.out)
    rows = [_row(item, measured[_key(item)]) for item in items if _key(item) in measured]
    summary = {
        "kernels": len(rows),
        "left_out": len(items) - len(rows),
        "ok": sum(row["verdict"] == "ok" for row in rows),
        "seconds": seconds,
        "kernels_per_second": len(rows) / max(seconds, 1e-9),
        "load_s": load_s,
        "warm_up_s": warm_s,
    }
    report(asked.out, "pool", device, summary | exported, rows, _text(rows, summary | exported))


def _proposed() -> Iterator[Item]:
    """The proposals beside this file, under this machine's toolchain."""
    tasks = {}
    with gzip.open(PROPOSED, "rt", encoding="utf-8") as file:
        for text in file:
            line = json.loads(text)
            name = line["task"]
            if name not in tasks:
                tasks[name] = builtin_task(name)
            noun = {**line["kernel"], "id": "", "source_id": "", "task_id": tasks[name].id}
            kernel = stamp(Kernel.model_validate(noun))
            called = f"{name}/{line['place']}"
            yield Item(
                name, line["place"], line["parent"], line["idea"], line["tag"], Named(kernel, tasks[name], called)
            )


def _dry() -> Iterator[Item]:
    """A handful of edits of C seeds, to try the script itself."""
    from common import load

    for name in ("vector_add", "sum_all"):
        path = builtin_kernel(name, "c", "seed")
        assert path is not None
        seed = load(path, called=f"{name}/0")
        yield Item(name, 0, -1, "the seed", "", seed)
        for place, found in zip(range(1, 4), EditsGenerator().candidates(seed.kernel, seed.task, 1), strict=False):
            yield Item(name, place, 0, found.idea, found.tag, Named(stamp(found.kernel), seed.task, f"{name}/{place}"))


def _ordered(items: list[Item], first: int) -> list[Item]:
    """Seeds at the very beginning, then so many of each of the first tasks, then the rest, each at random."""
    names = list(dict.fromkeys(item.task for item in items))[:FIRST_TASKS]
    stages: tuple[list[Item], ...] = ([], [], [])
    for item in items:
        early = item.task in names and item.place < first
        stages[0 if item.place == 0 else 1 if early else 2].append(item)
    for stage in stages:
        random.Random(1).shuffle(stage)
    return [item for stage in stages for item in stage]


def _key(item: Item) -> tuple[str, int]:
    return item.task, item.place


def _measured(
    bench: Bench, items: list[Item], baselines: dict[str, Named], clock: Clock, cap_s: float | None
) -> Iterator[tuple[tuple[str, int], Measurement | str]]:
    def one(item: Item) -> Measurement | str | None:
        if clock.over:
            return None
        baseline = baselines[item.task]
        against = None if baseline.kernel.id == item.candidate.kernel.id else baseline
        return bench.measure(item.candidate, against, effort="quick", deadline_s=1.5, cap_s=cap_s)

    with ThreadPoolExecutor(bench.hands.count) as pool:
        for number, (item, found) in enumerate(zip(items, pool.map(one, items), strict=True)):
            for later in items[number + COMPILED_AHEAD : number + COMPILED_AHEAD + 1]:
                bench.compile_ahead(later.candidate.kernel)
            if found is None:
                say(f"time is over: {len(items) - number} kernels left out")
                return
            yield _key(item), found
            if number % 200 == 199:
                say(f"{clock.elapsed:6.1f} s  {number + 1} kernels")


def _export(
    bench: Bench, items: list[Item], measured: dict[tuple[str, int], Measurement | str], out: Path
) -> dict[str, Any]:
    """The store's nouns, and where each kernel comes from: its nearest ancestor that was measured."""
    out.mkdir(parents=True, exist_ok=True)
    packed = out / "pool.jsonl.gz"
    by_key = {_key(item): item for item in items}
    with tempfile.TemporaryDirectory(prefix="kforecast-export-") as folder:
        plain = Path(folder) / "pool.jsonl"
        counts = exchange.export(bench.store, plain)
        with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=9) as target:
            target.writelines(source)
            for item in items:
                if _key(item) not in measured:
                    continue
                parent = item.parent
                while parent >= 0 and (item.task, parent) not in measured:
                    parent = by_key[(item.task, parent)].parent
                origin = {
                    "kernel_id": item.candidate.kernel.id,
                    "parent_id": by_key[(item.task, parent)].candidate.kernel.id if parent >= 0 else None,
                    "idea": item.idea,
                    "tag": item.tag,
                }
                target.write(json.dumps({"kind": "origin", "noun": origin}).encode() + b"\n")
    return {"exported": counts, "exported_mb": packed.stat().st_size / 1e6}


def _row(item: Item, found: Measurement | str) -> dict[str, Any]:
    row = {"kernel": item.candidate.called, "task": item.task, "idea": item.idea, "tag": item.tag}
    if isinstance(found, str):
        return row | {"verdict": "no answer", "reason": found}
    return row | {
        "verdict": found.verdict,
        "reason": (found.reason or found.quarantine or "")[:200],
        "device_s": round(found.device_seconds, 4),
        "log2_speedup": found.log2_speedup,
        "time_us": found.time_us,
        "censored": found.censored,
    }


def _text(rows: list[dict[str, Any]], summary: dict[str, Any]) -> str:
    lines = []
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["task"]].append(row)
    for name, group in groups.items():
        times = [row["time_us"] for row in group if row["verdict"] == "ok" and row["time_us"]]
        device = [row.get("device_s", 0.0) for row in group]
        verdicts = ", ".join(f"{verdict} {n}" for verdict, n in Counter(row["verdict"] for row in group).items())
        span = [min(times, default=None), quantile(times, 0.5), max(times, default=None)]
        lines.append([name, len(group), *span, sum(device), 1e3 * (quantile(device, 0.5) or 0.0), verdicts])
    columns = ["task", "kernels", "best us", "median us", "worst us", "GPU s", "device p50 ms", "verdicts"]
    tags: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        tags[row["tag"]].append(row["verdict"] == "ok")
    by_tag = table(
        ["idea", "kernels", "right"], [[tag or "seed", len(ok), sum(ok)] for tag, ok in sorted(tags.items())]
    )
    told = [f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}" for key, value in summary.items()]
    return "\n".join([table(columns, lines), "", by_tag, "", *told])


if __name__ == "__main__":
    main()
