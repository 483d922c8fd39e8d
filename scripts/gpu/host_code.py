"""The host-code lane on other benches' own files: each problem's reference against itself, and a program of zeros.

usage: host_code.py FOLDER [--seconds N] [--each N] [--most-mb N] [--only PATTERN] [--no-attacks] [--dry]
       host_code.py --read RESULT…

FOLDER holds KernelBench problems (`*.py` with Model, get_inputs and get_init_inputs) and GPU MODE problems (folders
with a `task.yml`), anywhere below. Wanted: the reference against itself is a tie, or its interval holds 1, in at least
93% of the problems; zeros are never `ok`. Problems that cannot be tested here are counted by reason. Then the attacks
and honest twins under tests/exploits run once each, on the same device. `--read` sums up the results of several runs:
of a problem that was measured more than once the last interval counts.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from common import ROOT, Bench, Clock, median, options, report, say, table

from kforecast.bench.languages.torch import peer_kernel, reference_kernel
from kforecast.bench.tasks.kernelbench import is_kernelbench
from kforecast.bench.tasks.peers import peer_task
from kforecast.store.errors import KforecastError
from kforecast.store.models import Measurement, Task
from kforecast.tools.kernels import Named

EXPLOITS = ROOT / "tests" / "exploits"
ZEROS_MODULE = '''
import torch
from torch import nn


class ModelNew(nn.Module):
    """Runs the reference once to know the form of its outputs, then returns zeros."""

    def __init__(self, *args, **kwargs):
        super().__init__()
        self.inner = Model(*args, **kwargs)
        self.form = None

    def forward(self, *args, **kwargs):
        if self.form is None:
            self.form = self.inner(*args, **kwargs)
        if isinstance(self.form, torch.Tensor):
            return torch.zeros_like(self.form)
        return type(self.form)(torch.zeros_like(one) for one in self.form)
'''
ZEROS_FUNCTION = """
import torch
from reference import ref_kernel


def zeros(value):
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    return tuple(zeros(one) for one in value)


def custom_kernel(data):
    return zeros(ref_kernel(data))
"""


def main() -> None:
    parser = options(__doc__, seconds=400)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--read", type=Path, nargs="+", help="results of earlier runs")
    parser.add_argument("--each", type=float, default=6.0, help="seconds of sampling a problem at most (6)")
    parser.add_argument(
        "--most-mb",
        type=float,
        default=512.0,
        help="leave out KernelBench problems above this (512; inf: in order of their names)",
    )
    parser.add_argument("--only", default="", help="a regular expression that paths must match")
    parser.add_argument("--no-attacks", action="store_true")
    parser.add_argument("--attack-seconds", type=float, default=90.0)
    asked = parser.parse_args()
    if asked.read:
        _read(asked.read)
        return
    if asked.folder is None:
        parser.error("a folder of problems, or --read")
    device = "cpu" if asked.dry else asked.device
    clock = Clock(asked.seconds)
    rows: list[dict[str, Any]] = []
    with Bench(device) as bench:
        found = _in_turn([path for path in _problems(asked.folder) if re.search(asked.only, str(path))], asked.most_mb)
        say(f"{clock.elapsed:6.1f} s  {len(found)} problems")
        for path in found:
            if clock.elapsed > asked.seconds - (0 if asked.no_attacks else asked.attack_seconds):
                say("time is over for problems")
                break
            row = _problem(bench, path, asked.folder, asked.each)
            rows.append(row)
            say(f"{clock.elapsed:6.1f} s  {row['problem']}: {row['verdict']} {row['comparison']} zeros {row['zeros']}")
        attacks = [] if asked.no_attacks else list(_attacks(bench, clock))
    summary = _summary(rows, attacks)
    columns = ("problem", "verdict", "comparison", "low", "high", "time_us", "noise_pct", "zeros", "seconds")
    lines = table(columns, [[row[name] for name in columns] for row in rows])
    text = f"{lines}\n" + "\n".join(f"{name}: {value}" for name, value in summary.items())
    report(asked.out, "host_code", device, summary, [*rows, *attacks], text)


def _read(results: list[Path]) -> None:
    rows = [row for path in results for row in json.loads(path.read_text())["rows"]]
    known: dict[str, dict[str, Any]] = {}
    for row in (row for row in rows if row["kind"] == "problem"):
        if row["problem"] not in known or row["low"] is not None:
            known[row["problem"]] = row
    attacks = {row["file"]: row for row in rows if row["kind"] == "attack"}
    summary = _summary(list(known.values()), list(attacks.values()))
    for kind, of in (("KernelBench", ".py"), ("GPU MODE", "")):
        summary[f"ok, {kind}"] = sum(row["verdict"] == "ok" for name, row in known.items() if Path(name).suffix == of)
    say("\n".join(f"{name}: {value}" for name, value in summary.items()))


def _problems(folder: Path) -> Iterator[Path]:
    """KernelBench files and GPU MODE folders below a folder."""
    tasks = sorted(path.parent for path in folder.rglob("task.yml"))
    yield from tasks
    for path in sorted(folder.rglob("*.py")):
        if not any(path.is_relative_to(task) for task in tasks) and is_kernelbench(path.read_text(errors="replace")):
            yield path


def _in_turn(paths: list[Path], most_mb: float) -> list[Path]:
    """GPU MODE folders and KernelBench files in turn, the latter from small to large, none above `most_mb`."""
    folders = [path for path in paths if path.is_dir()]
    random.Random(1).shuffle(folders)
    files = [path for path in paths if path.is_file()]
    if most_mb == float("inf"):  # measuring sizes takes a while
        return [path for turn in zip_longest(folders, files) for path in turn if path is not None]
    sizes = _sizes(files)
    small = sorted((path for path in files if 0 <= sizes[path] <= most_mb), key=lambda path: sizes[path])
    say(f"{len(files) - len(small)} KernelBench problems are above {most_mb:g} MB, or their size is not known")
    turns = zip_longest(folders, *(small[n::4] for n in range(4)))
    return [path for turn in turns for path in turn if path is not None]


def _sizes(files: list[Path]) -> dict[Path, float]:
    """Megabytes of inputs, weights and outputs of KernelBench files, without making them; -1 where that fails."""
    if not files:
        return {}
    asked = [sys.executable, "-P", "-c", _MEASURE, *map(str, files)]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    told = [float(line) for line in answer.stdout.split()]
    return dict(zip(files, [*told, *[-1.0] * (len(files) - len(told))], strict=True))


_MEASURE = """
import sys, torch
torch.set_grad_enabled(False)
def size(value):
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(map(size, value)) if isinstance(value, (list, tuple)) else 0
for path in sys.argv[1:]:
    try:
        space = {"__name__": "problem"}
        exec(open(path).read(), space)
        with torch.device("meta"):
            inputs, model = space["get_inputs"](), space["Model"](*space["get_init_inputs"]())
            print((size(inputs) + size(list(model.parameters())) + size(model(*inputs))) / 2**20, flush=True)
    except Exception:
        print(-1, flush=True)
"""


def _problem(bench: Bench, path: Path, folder: Path, cap_s: float) -> dict[str, Any]:
    """One row: the reference against itself, and zeros."""
    begin = time.monotonic()
    row: dict[str, Any] = {"kind": "problem", "problem": str(path.relative_to(folder)), "verdict": "", "reason": ""}
    row |= dict.fromkeys(("comparison", "low", "high", "time_us", "noise_pct", "zeros", "seconds", "isolation"))
    try:
        task = peer_task(path)
        assert task is not None, "it was recognised"
        reference = Named(reference_kernel(task), task, "reference")
        itself = bench.measure(reference, reference, deadline_s=30.0, cap_s=cap_s)
        row |= _told(itself)
        if isinstance(itself, Measurement) and itself.verdict == "ok":
            zeros = bench.measure(Named(_zeros(task), task, "zeros"), None, deadline_s=30.0, cap_s=cap_s)
            row["zeros"] = zeros.verdict if isinstance(zeros, Measurement) else zeros[:200]
    except KforecastError as error:
        row |= {"verdict": "refused", "reason": str(error)[:300]}
    row["seconds"] = round(time.monotonic() - begin, 1)
    return row


def _zeros(task: Task) -> Any:
    problem = task.problem
    assert problem is not None
    if problem.format == "kernelbench":
        return peer_kernel(problem.files["problem.py"] + ZEROS_MODULE, "zeros.py", task)
    return peer_kernel(ZEROS_FUNCTION, "zeros.py", task)


def _told(found: Measurement | str) -> dict[str, Any]:
    if not isinstance(found, Measurement):
        nulls = re.search(r"null kernel passes.*?'value': '([^']*)'", found)
        reason = f"untestable: {nulls[1]}" if nulls else found
        return {"verdict": "untestable" if nulls else "error", "reason": reason[:300]}
    return {
        "verdict": found.verdict,
        "reason": found.reason[:300],
        "comparison": found.comparison,
        "low": None if found.log2_low is None else 2.0**found.log2_low,
        "high": None if found.log2_high is None else 2.0**found.log2_high,
        "time_us": found.time_us,
        "noise_pct": found.noise_pct,
        "isolation": found.isolation,
        "labels": found.labels,
        "null_call_us": found.environment.get("null_call_us"),
        "null_call_spread_us": found.environment.get("null_call_spread_us"),
        "device_seconds": found.device_seconds,
    }


def _attacks(bench: Bench, clock: Clock) -> Iterator[dict[str, Any]]:
    """Every attack and honest twin of the host-code lane once, candidate alone."""
    task = peer_task(EXPLOITS / "torch" / "problem.py")
    assert task is not None, "it is a KernelBench file"
    for folder in (EXPLOITS / "honest" / "torch", EXPLOITS / "torch"):
        for path in sorted(folder.glob("*.py")):
            if path.name == "problem.py" or path.name.startswith(_ON_CPU_ONLY):
                continue
            if clock.over:
                say("time is over for attacks")
                return
            source = path.read_text()
            wanted = re.search(r"^# expect: ([^:\n]*)", source, re.MULTILINE)
            allowed = wanted[1].split("|") if wanted else []
            begin = time.monotonic()
            kernel = peer_kernel(source, path.name, task)
            found = bench.measure(Named(kernel, task, path.stem), None, deadline_s=3.0, cap_s=1.0)
            told = _told(found)
            expected = told["verdict"] in allowed
            seconds = round(time.monotonic() - begin, 2)
            yield {"kind": "attack", "file": path.name, "honest": folder.parent.name == "honest", **told,
                   "allowed": allowed, "as_expected": expected, "seconds": seconds}  # fmt: skip
            say(f"{clock.elapsed:6.1f} s  {path.stem}: {told['verdict']}{'' if expected else ' NOT AS EXPECTED'}")


_ON_CPU_ONLY = ("loads_for_ever", "takes_100gb", "fork_bomb")
"""What only takes time or memory of the host, the same on every device."""


def _summary(rows: list[dict[str, Any]], attacks: list[dict[str, Any]]) -> dict[str, Any]:
    ok = [row for row in rows if row["verdict"] == "ok"]
    judged = [row for row in ok if row["low"] is not None]
    holds = [row for row in judged if row["comparison"] == "tie" or row["low"] <= 1.0 <= row["high"]]
    zeros = [row for row in ok if row["zeros"] is not None]
    return {
        "problems": len(rows),
        "verdicts": dict(Counter(row["verdict"] for row in rows)),
        "reference_against_itself": len(judged),
        "tie_or_holds_1": len(holds),
        "share": len(holds) / len(judged) if judged else None,
        "false_faster_or_slower": sum(row["comparison"] in ("faster", "slower") for row in judged),
        "median_half_width_pct": median([50 * (row["high"] - row["low"]) for row in judged]),
        "zeros_ok": sum(row["zeros"] == "ok" for row in zeros),
        "zeros_measured": len(zeros),
        "untestable": {row["problem"]: row["reason"] for row in rows if row["verdict"] == "untestable"},
        "unsupported": {row["problem"]: row["reason"] for row in rows if row["verdict"] in ("unsupported", "refused")},
        "errors": {row["problem"]: row["reason"] for row in rows if row["verdict"] == "error"},
        "attacks_as_expected": sum(row["as_expected"] for row in attacks if not row["honest"]),
        "attacks": sum(not row["honest"] for row in attacks),
        "twins_ok": sum(row["verdict"] == "ok" for row in attacks if row["honest"]),
        "twins": sum(row["honest"] for row in attacks),
        "not_as_expected": [f"{row['file']}: {row['verdict']}" for row in attacks if not row["as_expected"]],
        "seconds_a_twin": median([row["seconds"] for row in attacks if row["honest"]]),
        "isolation": sorted({str(row["isolation"]) for row in (*rows, *attacks) if row.get("isolation")}),
    }


if __name__ == "__main__":
    main()
