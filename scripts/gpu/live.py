"""Live searches: policies with forecasts against both controls, at equal GPU seconds, several seeds, winners claimed.

On the GPU machine, from the checkout's root, in one call of at most 280 s:

    scripts/gpu/run.sh live --seconds 255        results: $OUT/live.json, live.jsonl.gz

Each search starts from a task's seed kernel with the generators `edits` and `tune`. The forecaster is `learned`, told
only what its own search has measured (`learned-here`): searches share a store and must not learn from each other. Its
model is trained on the recorded pools without the searched tasks. Several searches run at once and take turns on the
device, so that it never waits for a compiler; a search's GPU seconds are those of its own measurements. At the end the
best kernel of each task and arm is measured against the seed with effort `claim`, as far as the time goes: those of
`gain` first.

`--dry` searches from C seeds on the cpu. `--tasks` also takes kernel files to start from. `--read live.jsonl.gz`
searches nothing, and makes the table and live.json from what an earlier run exported.
"""

from __future__ import annotations

import gzip
import math
import multiprocessing
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from common import ROOT, Clock, median, options, report, say, table

from kforecast.bench.tasks.builtin import builtin_kernel
from kforecast.store import exchange, measurements, searches
from kforecast.store.database import Store
from kforecast.store.errors import KforecastError
from kforecast.store.models import Measurement
from kforecast.surrogate.learned.model import save
from kforecast.surrogate.learned.train import train
from kforecast.tools.datasets import newest, opened, sample_of
from kforecast.tools.learned import own_path
from kforecast.tools.measure import measure
from kforecast.tools.search.report import report_of
from kforecast.tools.search.use import search

TASKS = "softmax_rows,layernorm,transpose,gemm_f32"
POOLS = tuple(ROOT / "docs" / "results" / name for name in ("h200_pool.jsonl.gz", "h200_kernels.jsonl.gz"))
POLICIES = ("gain", "puct")
CONTROLS = ("control-random", "control-all")


@dataclass(frozen=True)
class Job:
    """One search."""

    task: str
    seed: int
    arm: str
    policy: str
    forecaster: str
    budget: str
    device: str
    language: Any


def arms(forecaster: str) -> dict[str, tuple[str, str]]:
    """What is compared: policy and forecaster by name."""
    return {
        **{f"{policy}+{forecaster}": (policy, forecaster) for policy in POLICIES},
        **{name: (name, "base-rate") for name in CONTROLS},
    }


def main() -> None:
    parser = options(__doc__, seconds=255)
    parser.add_argument("--tasks", default=TASKS, help="names of tasks, or kernel files")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", default="2.5gpu-s", help="of each search (2.5gpu-s)")
    parser.add_argument("--forecaster", default="learned-here")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--pool", type=Path, nargs="*", default=[path for path in POOLS if path.exists()])
    parser.add_argument("--no-train", action="store_true", help="forecast with the model that is there")
    parser.add_argument("--claims", type=float, default=60, help="seconds kept for claims (60)")
    parser.add_argument("--read", type=Path, help="an export of an earlier run")
    asked = parser.parse_args()
    if asked.read is not None:
        _read(asked.read, asked.out)
        return
    clock = Clock(asked.seconds - asked.claims)
    tasks = asked.tasks.split(",")
    device, language = ("cpu", "c") if asked.dry else (asked.device, "cuda")
    with Store.open() as store:
        trained = "" if asked.no_train else _train(store, asked.pool, tasks)
    jobs = [
        Job(task, seed, arm, policy, forecaster, asked.budget, device, language)
        for seed in range(asked.seeds)
        for task in tasks
        for arm, (policy, forecaster) in arms(asked.forecaster).items()
    ]
    rows = _searches(jobs, asked.at_once, clock)
    searched_s = clock.elapsed
    claims = _claims(rows, list(arms(asked.forecaster)), Clock(asked.seconds - searched_s), device)
    with Store.open() as store:
        exported = _export(store, asked.out)
    summary = {
        "searches": len(rows),
        "left_out": len(jobs) - len(rows),
        "searched_s": searched_s,
        "gpu_seconds": sum(row["spent"].get("gpu_seconds", 0.0) for row in rows if "spent" in row),
        "seconds": searched_s + sum(claim["seconds"] for claim in claims),
        "trained": trained,
        **exported,
        **_compared(rows, list(arms(asked.forecaster))),
    }
    text = _text(rows, claims, list(arms(asked.forecaster)), summary)
    report(asked.out, "live", device, {**summary, "budget": asked.budget, "claims": claims}, rows, text)


def _train(store: Store, pools: Sequence[Path], left_out: Sequence[str]) -> str:
    """A model of the pools' other tasks, as the user's own beside the store; what it was trained on, in words."""
    if not pools:
        return ""
    names: dict[str, str] = {}
    samples = []
    for pool in pools:
        with opened(str(pool)) as rows:
            for kernel, measurement in newest(rows):
                names[kernel.task_id] = measurement.task_name
                if measurement.task_name not in left_out:
                    samples.append(sample_of(kernel, measurement))
    save(train(samples), own_path(store))
    others = sorted(set(names.values()) - set(left_out))
    return f"{len(samples)} kernels of {', '.join(path.name for path in pools)}: {', '.join(others)}"


def _searches(jobs: Sequence[Job], at_once: int, clock: Clock) -> list[dict[str, Any]]:
    """All searches, several at once; none begins when the time is over. A search that fails is a row that says so."""
    rows = []
    waiting = list(reversed(jobs))
    # Fresh interpreters: a fork of a process with threads and an open store is a broken one.
    with ProcessPoolExecutor(at_once, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(run, waiting.pop()) for _ in range(min(at_once, len(waiting)))}
        while running:
            done = next(as_completed(running))
            running.remove(done)
            rows.append(done.result())
            say(f"{clock.elapsed:6.1f} s  {_told(rows[-1])}")
            if waiting and not clock.over:
                running.add(pool.submit(run, waiting.pop()))
    if waiting:
        say(f"time is over: {len(waiting)} searches left out")
    return rows


def run(job: Job) -> dict[str, Any]:
    """One search, in a process of its own."""
    row: dict[str, Any] = {"task": job.task, "seed": job.seed, "arm": job.arm}
    begin = Clock(0)
    try:
        with Store.open() as store:
            named = job.task.endswith((".c", ".cu"))
            path = Path(job.task) if named else builtin_kernel(job.task, job.language, "seed")
            result = search(
                str(path),
                budget=job.budget,
                device=job.device,
                policy=job.policy,
                forecaster=job.forecaster,
                generator="edits+tune",
                random_seed=job.seed,
                measuring=1,
                proposing=4,
                verify=False,
                detached=False,
                store=store,
            )
            return row_of(store, result.search_id) | {"wall_s": round(begin.elapsed, 2)}
    except Exception as error:  # noqa: BLE001 -- one search must not end a run that a machine was started for
        traceback.print_exc()
        return row | {"error": f"{type(error).__name__}: {error}"}


def row_of(store: Store, search_id: str) -> dict[str, Any]:
    """What a search came to, from the store."""
    search, told = searches.resolve(store, search_id), report_of(store, search_id)
    best, result = told.result.best, told.result
    return {
        "task": search.task_name,
        "seed": told.config.random_seed,
        "arm": search.policy if search.policy in CONTROLS else f"{search.policy}+{search.forecaster}",
        "search": search.id,
        "seed_id": search.seed_id,
        "state": result.state,
        "reason": result.reason,
        "best": None if best is None else best.model_dump(mode="json"),
        "spent": search.spent,
        "wall_s": round(search.spent["wall_s"], 2),
        "curve": [[round(p.gpu_seconds, 4), p.candidates, p.measurements, 2.0**p.log2] for p in told.curve],
        "decisions": told.decisions,
        "verdicts": told.verdicts,
        "diff": told.diff,
    }


def _read(exported: Path, out: Path) -> None:
    """The table of an earlier run: its searches, and the claims among its measurements."""
    with tempfile.TemporaryDirectory(prefix="kforecast-live-") as folder, Store.open(Path(folder) / "live.db") as store:
        exchange.import_(store, exported)
        found = sorted(searches.recent(store, limit=100_000), key=lambda search: search.created_at)
        rows = [row_of(store, search.id) for search in found]
        names = sorted({row["arm"] for row in rows}, key=lambda arm: (arm in CONTROLS, arm))
        claims: list[dict[str, Any]] = []
        measured_on: dict[str, Any] = {}
        for arm, task, best in _winners(rows, names):
            claimed = measurements.find(store, kernel=best["kernel_id"], baseline=best["seed_id"])
            for one in (one for one in claimed if one.effort == "claim"):
                claims.append(_claim(arm, task, best) | told_of(one))
                measured_on = {key: one.environment[key] for key in _MACHINE if key in one.environment}
    summary = {
        "searches": len(rows),
        "searched_from": found[0].created_at,
        "searched_to": found[-1].updated_at,
        "gpu_seconds": sum(row["spent"]["gpu_seconds"] for row in rows),
        **measured_on,
        **_compared(rows, names),
    }
    text = _text(rows, claims, names, summary)
    report(out, "live", "cpu", {**summary, "read_from": exported.name, "claims": claims}, rows, text)


_MACHINE = ("gpu", "driver", "arch")


def _told(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['task']} seed {row['seed']} {row['arm']}: {row['error']}"
    found, spent = row["best"], row["spent"]
    best = "nothing" if found is None else f"{found['speedup']:.3f}x"
    return (
        f"{row['task']:14s} seed {row['seed']} {row['arm']:18s} {best}; {spent.get('candidates', 0):.0f} candidates, "
        f"{spent.get('measurements', 0):.0f} measured, {spent.get('gpu_seconds', 0):.2f} GPU s, {row['wall_s']:.1f} s"
    )


def _winners(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[tuple[str, str, dict[str, Any]]]:
    """The best kernel of each arm and task that beats its seed, arms in their order."""
    best: dict[tuple[int, str], dict[str, Any]] = {}
    for row in rows:
        key = (names.index(row["arm"]), row["task"])
        if row.get("best") is not None and row["best"]["speedup"] > best.get(key, {"speedup": 1.0})["speedup"]:
            best[key] = {**row["best"], "seed_id": row["seed_id"]}
    return [(names[arm], task, found) for (arm, task), found in sorted(best.items(), key=lambda entry: entry[0])]


def _claim(arm: str, task: str, found: dict[str, Any]) -> dict[str, Any]:
    return {"task": task, "arm": arm, "kernel": found["kernel_id"], "searched": found["speedup"]}


def told_of(got: Measurement) -> dict[str, Any]:
    """A claim's measurement in numbers."""
    logs = {"speedup": got.log2_speedup, "low": got.log2_low, "high": got.log2_high}
    ratios = {name: None if log2 is None else 2.0**log2 for name, log2 in logs.items()}
    return {
        "verdict": got.verdict, "comparison": got.comparison, **ratios, "percent_of_floor": got.percent_of_floor,
        "seconds": round(got.device_seconds, 2),
    }  # fmt: skip


def _claims(rows: Sequence[dict[str, Any]], names: Sequence[str], clock: Clock, device: str) -> list[dict[str, Any]]:
    """The winners against their seeds, while there is time."""
    claims = []
    with Store.open() as store:
        for arm, task, found in _winners(rows, names):
            if clock.over:
                break
            claim = _claim(arm, task, found)
            try:
                got = measure(found["kernel_id"], baseline=found["seed_id"], device=device, effort="claim", store=store)
                stored = measurements.get(store, got.measurement_id)
                assert stored is not None, "it was just measured"
                claim |= told_of(stored)
            except KforecastError as error:
                claim |= {"verdict": "no answer", "reason": str(error), "seconds": 0.0}
            claims.append(claim)
            say(f"claim {claims[-1]}")
    return claims


def _export(store: Store, out: Path) -> dict[str, Any]:
    """All that was measured, compressed: for whoever trains on it."""
    out.mkdir(parents=True, exist_ok=True)
    packed = out / "live.jsonl.gz"
    with tempfile.TemporaryDirectory(prefix="kforecast-export-") as folder:
        plain = Path(folder) / "live.jsonl"
        counts = exchange.export(store, plain)
        with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=9) as target:
            target.writelines(source)
    return {"exported": counts, "exported_mb": packed.stat().st_size / 1e6}


def at(curve: Sequence[Sequence[float]], seconds: float) -> float:
    """The best S of a curve after so many GPU seconds; 1 before its first point."""
    return max((point[3] for point in curve if point[0] <= seconds), default=1.0)


def behind(row: dict[str, Any], best: float, most: float) -> float:
    """Mean of log2(best / found) over the budget's twentieths: 0 for a search that had the best at once."""
    return mean(math.log2(best / at(row["curve"], share / 20 * most)) for share in range(1, 21))


def _compared(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """`behind` of every arm, mean over tasks and seeds; and the first arm's less each other's, paired by task and seed,
    with its standard error. Searches that proposed nothing are left out: the device's start had used up their budget.
    """
    found: dict[str, dict[tuple[str, int], float]] = {name: {} for name in names}
    for task in dict.fromkeys(row["task"] for row in rows):
        group = [row for row in rows if row["task"] == task and row.get("spent", {}).get("candidates")]
        best = max((point[3] for row in group for point in row["curve"]), default=1.0)
        most = max((row["spent"]["gpu_seconds"] for row in group), default=0.0)
        for row in group:
            found[row["arm"]][task, row["seed"]] = behind(row, best, most)
    answer: dict[str, Any] = {"behind": {name: mean(of.values()) for name, of in found.items() if of}}
    first, *others = names
    for name in others:
        pairs = [found[first][key] - found[name][key] for key in found[first] if key in found[name]]
        if len(pairs) > 1:
            answer[f"behind, {first} less {name}"] = [mean(pairs), stdev(pairs) / math.sqrt(len(pairs))]
    return answer


def _text(
    rows: Sequence[dict[str, Any]], claims: Sequence[dict[str, Any]], names: Sequence[str], summary: dict[str, Any]
) -> str:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if "error" not in row:
            groups[(row["task"], row["arm"])].append(row)
    lines = []
    for task in dict.fromkeys(row["task"] for row in rows):
        most = max((row["spent"]["gpu_seconds"] for row in rows if row["task"] == task and "spent" in row), default=0.0)
        for name in names:
            group = groups[(task, name)]
            shares = [median([at(row["curve"], share * most) for row in group]) for share in (0.25, 0.5, 1.0)]
            ends = [at(row["curve"], most) for row in group]
            counts = [median([row["spent"].get(kind, 0.0) for row in group]) for kind in ("candidates", "measurements")]
            wall = median([row["wall_s"] for row in group])
            lines.append([task, name, len(group), *shares, max(ends, default=None), *counts, wall])
    columns = ["task", "arm", "seeds", "S at 25%", "at 50%", "at the end", "best", "candidates", "measured", "wall s"]
    claimed = [
        [one["task"], one["arm"], one["searched"], one.get("speedup"), one.get("low"), one.get("high"), one["verdict"]]
        for one in claims
    ]
    told = [f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}" for key, value in summary.items()]
    claim_columns = ["claim", "arm", "S searched", "S claimed", "low", "high", "verdict"]
    return "\n".join([table(columns, lines), "", table(claim_columns, claimed), "", *told])


if __name__ == "__main__":
    main()
