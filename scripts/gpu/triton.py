"""Triton kernels through the device-only lane: each against the seed and the tuned CUDA kernel of its task, the broken
ones' verdicts, and a configuration or two of their tunables.

Wanted: every kernel `ok`, every broken one its verdict. With `--dry` the files are compiled, which needs no GPU, and
the task's tuned C kernel is measured in their place.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

from common import EXHIBITS, ROOT, Bench, Clock, load, options, report, say, shipped, table

from kforecast.bench.header.configure import configurations
from kforecast.bench.header.load import load_kernel
from kforecast.bench.languages.triton.toolchain import find_triton
from kforecast.bench.tasks.load import resolve_task
from kforecast.store.errors import KforecastError
from kforecast.store.models import Measurement
from kforecast.tools.facts import facts_of
from kforecast.tools.kernels import Named

sys.path.pop(0)  # this folder: `triton` is to be the package, not this script

FILES = [ROOT / "examples" / "softmax_triton.py", *sorted((EXHIBITS / "triton").glob("*.py"))]
BROKEN = sorted((EXHIBITS / "triton" / "bad").glob("*.py"))
_EXPECT = re.compile(r"^# expect: ([\w|]+):", re.MULTILINE)


def main() -> None:
    parser = options(__doc__, seconds=55)
    parser.add_argument("--cap", type=float, default=1.5, help="seconds of sampling a measurement (1.5)")
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--most", type=int, default=3, help="other configurations of the tunables of each file (3)")
    asked = parser.parse_args()
    device = "cpu" if asked.dry else asked.device
    clock = Clock(asked.seconds)
    rows: list[dict[str, Any]] = []
    with Bench(device) as bench:
        named = [load(path, called=path.stem) for path in FILES]
        for candidate in named:
            if not clock.over:
                rows.append(_against_cuda(bench, candidate, asked.effort, asked.cap, asked.dry))
                say(f"{clock.elapsed:6.1f} s  {candidate.called}: {rows[-1]['verdict']}")
        verdicts = [] if asked.dry else _broken(bench, clock)
        tuned = [] if asked.dry else _tuned(bench, clock, named, asked.most)
    summary = {
        "triton": find_triton().version,
        "measured": len(rows),
        "ok": sum(row["verdict"] == "ok" for row in rows),
        "broken_as_expected": sum(row["as_expected"] for row in verdicts),
        "broken": len(verdicts),
        "configurations_ok": sum(row["verdict"] == "ok" for row in tuned),
        "configurations": len(tuned),
        "seconds": clock.elapsed,
    }
    keys = ["kernel", "verdict", "compile_ms", "cold_us", "warm_us", "floor_pct", "S_seed", "S_tuned", "low", "high"]
    keys += ["noise_pct", "registers", "shared", "device_s"]
    text = [table(keys, [[row.get(key) for key in keys] for row in rows])]
    for more in (verdicts, tuned):
        if more:
            columns = list(more[0])
            text.append(table(columns, [[row[key] for key in columns] for row in more]))
    problems = [f"{row['kernel']}: {row['reason']}" for row in rows if row["reason"]]
    report(
        asked.out, "triton", device, summary, [*rows, *verdicts, *tuned], "\n".join([*text, *problems, str(summary)])
    )


def _against_cuda(bench: Bench, candidate: Named, effort: Any, cap_s: float, dry: bool) -> dict[str, Any]:
    """Two measurements of one kernel: against the task's seed kernel, and against the tuned one."""
    begun = time.monotonic()
    facts, _ = facts_of(candidate.kernel, candidate.task, None if dry else bench.lane.facts.arch)  # type: ignore[attr-defined]
    row: dict[str, Any] = {
        "kernel": candidate.called,
        "compile_ms": 1e3 * (time.monotonic() - begun),
        "registers": "/".join(str(entry.registers) for entry in facts.entries),
        "shared": "/".join(str(entry.shared_bytes) for entry in facts.entries),
        "reason": facts.error or "",
        "verdict": "ok" if facts.ok else "compile_error",
    }
    if not facts.ok:
        return row
    name = candidate.task.name
    measured = shipped(bench, name, "tuned") if dry else candidate
    found = bench.measure(measured, shipped(bench, name, "seed"), effort="quick", cap_s=cap_s)
    if isinstance(found, str) or found.verdict != "ok":
        return row | _failed(found)
    tuned = bench.measure(measured, shipped(bench, name, "tuned"), effort=effort, cap_s=cap_s)
    if isinstance(tuned, str) or tuned.verdict != "ok":
        return row | _failed(tuned)
    return row | {
        "S_seed": found.speedup,
        "S_tuned": tuned.speedup,
        "low": None if tuned.log2_low is None else 2**tuned.log2_low,
        "high": None if tuned.log2_high is None else 2**tuned.log2_high,
        "cold_us": tuned.time_us,
        "warm_us": tuned.time_warm_us,
        "floor_pct": tuned.percent_of_floor,
        "noise_pct": tuned.noise_pct,
        "device_s": found.device_seconds + tuned.device_seconds,
        "labels": tuned.labels,
        "launch_mode": tuned.launch_mode,
        "cases": [case.model_dump() for case in tuned.cases],
        "reason": tuned.quarantine or "",
    }


def _failed(found: Measurement | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"verdict": "no answer", "reason": found}
    return {"verdict": found.verdict, "reason": f"{found.reason} {found.diagnostics[:300]}"}


def _broken(bench: Bench, clock: Clock) -> list[dict[str, Any]]:
    """The verdicts of the files that have something wrong with them."""
    rows = []
    for path in BROKEN:
        expected = _EXPECT.search(path.read_text())
        assert expected is not None, path
        # An endless import costs the compiler's whole deadline, and is tested without a GPU.
        if clock.over or path.stem == "endless_import":
            continue
        reason = ""
        try:
            found = bench.measure(load(path, called=path.stem), deadline_s=1.0, cap_s=0.5)
            verdict = found if isinstance(found, str) else found.verdict
            reason = "" if isinstance(found, str) else found.reason
        except KforecastError as error:
            verdict, reason = "refused", error.what
        said = reason.splitlines()[0][:70] if reason else ""
        as_expected = verdict in expected[1].split("|")
        rows.append({"broken": path.stem, "verdict": verdict, "as_expected": as_expected, "reason": said})
        say(f"{clock.elapsed:6.1f} s  {path.stem}: {verdict}")
    return rows


def _tuned(bench: Bench, clock: Clock, named: list[Named], most: int) -> list[dict[str, Any]]:
    """Other configurations of each file, against the one that its tunables begin with."""
    rows = []
    for path, first in zip(FILES, named, strict=True):
        tune = load_kernel(Path(path), resolve_task=resolve_task).tune
        others = [settings for settings in configurations(tune) if settings != first.kernel.tunables][:most]
        for settings in others:
            if clock.over:
                return rows
            called = " ".join(f"{name}={value}" for name, value in settings.items())
            found = bench.measure(load(path, settings=settings, called=called), first, cap_s=0.5)
            failed = isinstance(found, str)
            row = {"tuned": path.stem, "settings": called, "verdict": found if failed else found.verdict}  # type: ignore[union-attr]
            rows.append(row | {"S": None if failed else found.speedup})  # type: ignore[union-attr]
            say(f"{clock.elapsed:6.1f} s  {path.stem} {called}: {row['verdict']}")
    return rows


if __name__ == "__main__":
    main()
