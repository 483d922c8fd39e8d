"""Looking inside a kernel with NVIDIA's own tools, in a process apart: Nsight Compute, compute-sanitizer."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....store.models import Case, Task
from ...header.plan import ScalarArg, plan_launches
from ...lane import Inspection, Program
from ...processes import Limits, Outcome, clean_environment, run_limited
from ...tasks.shapes import bytes_of
from ..scalars import scalar_bits
from . import ncu, sanitizer
from .layout import lay_out, scratch_of

DEADLINE_S = 60.0
_SMALL_BYTES = 16 << 20
_LIMITS = Limits(cpu_s=300, address_bytes=1 << 50, file_bytes=1 << 30)
"""A CUDA context reserves far more addresses than it uses, so the address space stays open."""
_LOG = "log.txt"
_KEPT = ("PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH")


def profile(program: Program, task: Task, constants: Mapping[str, int], ordinal: int, arch: str) -> Inspection:
    """Count with Nsight Compute what the largest timed case keeps busy; notes in words, or why there are none."""
    tool = find_tool("ncu")
    if tool is None:
        return Inspection(notes=("no profile: Nsight Compute (ncu) is not on PATH; it comes with the CUDA toolkit",))
    case = max(task.timed_on("cuda"), key=lambda case: _bytes(task, case))
    plan = plan_of(program, task, case, constants, ordinal)
    with tempfile.TemporaryDirectory(prefix="kforecast-ncu-") as home:
        outcome, log = _run(Path(home), plan, [str(tool), *ncu.options(Path(home) / _LOG, arch)], DEADLINE_S)
    sentences = ncu.words(ncu.parse(log))
    if not sentences:
        why = f"it took more than {DEADLINE_S:g} s" if outcome.timed_out else ncu.refusal(log + outcome.output)
        return Inspection(notes=(f"no profile: Nsight Compute does not count here: {why}",))
    return Inspection(notes=tuple(f"profile ({case.name}, cold): {sentence}" for sentence in sentences))


def sanitize(program: Program, task: Task, constants: Mapping[str, int], ordinal: int) -> Inspection:
    """Run memcheck and racecheck once over a small checked case; see `verdict_of`."""
    tool = find_tool("compute-sanitizer")
    if tool is None:
        note = "memory errors and races were not looked for: compute-sanitizer is not on PATH"
        return Inspection(notes=(note,))
    plan = plan_of(program, task, small_case(task), constants, ordinal)
    until = time.monotonic() + DEADLINE_S
    found: dict[sanitizer.Tool, sanitizer.Findings] = {}
    names: tuple[sanitizer.Tool, ...] = ("memcheck", "racecheck")
    for name in names:
        left_s = until - time.monotonic()
        if left_s < 1.0:
            found[name] = sanitizer.Findings(None, f"no time was left of {DEADLINE_S:g} s")
            continue
        with tempfile.TemporaryDirectory(prefix="kforecast-sanitizer-") as home:
            outcome, log = _run(Path(home), plan, [str(tool), *sanitizer.options(name, Path(home) / _LOG)], left_s)
        if outcome.timed_out:
            found[name] = sanitizer.Findings(None, f"it did not end within {DEADLINE_S:g} s")
        else:
            found[name] = sanitizer.parse(name, log or outcome.output)
    return verdict_of(found)


def verdict_of(found: Mapping[sanitizer.Tool, sanitizer.Findings]) -> Inspection:
    """What the findings mean: memory errors quarantine, races label, a tool that came to no result is a note."""
    notes = [f"{name} came to no result: {f.first}" for name, f in found.items() if f.count is None]
    memory, races = found["memcheck"].count, found["racecheck"].count
    clean = [name for name, f in found.items() if f.count == 0]
    if clean:
        notes.append(f"compute-sanitizer: {' and '.join(clean)} found nothing on a small case")
    if races:
        told = found["racecheck"].first
        notes.append(f"racecheck: {_counted(races, 'hazard')} in shared memory{f', the first: {told}' if told else ''}")
    quarantine = None
    if memory:
        told = found["memcheck"].first
        quarantine = f"memcheck: {_counted(memory, 'memory error')}{f', the first: {told}' if told else ''}"
    return Inspection(notes=tuple(notes), labels=("race",) if races else (), quarantine=quarantine)


def plan_of(program: Program, task: Task, case: Case, constants: Mapping[str, int], ordinal: int) -> dict[str, Any]:
    """The plan of `standalone` for one case, with a fresh seed. Raises as `plan_launches` does."""
    kernel = program.kernel
    more = {"candidate": scratch_of(program, task, case, constants)}
    layout = lay_out(task, case, {"candidate": kernel}, constants, more)
    zero = [tensor.name for tensor in task.tensors if tensor.zero] + [e.name for e in kernel.scratch if e.zero]
    launches = [
        {
            "symbol": symbol,
            "grid": launch.grid,
            "block": launch.block,
            "smem": launch.smem,
            "args": [("s", scalar_bits(arg)) if isinstance(arg, ScalarArg) else ("t", arg.name) for arg in launch.args],
        }
        for symbol, launch in program.build.placed(plan_launches(kernel, task, case, program.signatures, constants))
    ]
    return {
        "ordinal": ordinal,
        "cubin": str(program.build.binary),
        "task": task.model_dump(mode="json"),
        "case": case.model_dump(mode="json"),
        "seed": secrets.randbits(63),
        "scratch": {name: size for (_, name), (_, size, _) in layout.scratch.items()},
        "zero": zero,
        "launches": launches,
    }


def small_case(task: Task) -> Case:
    """The largest checked case of at most 16 MiB, else the smallest: tools that watch every access are slow."""
    by_size = sorted(task.checked, key=lambda case: _bytes(task, case))
    return next((case for case in reversed(by_size) if _bytes(task, case) <= _SMALL_BYTES), by_size[0])


def find_tool(name: str) -> Path | None:
    """A program of the CUDA toolkit: on PATH, in CUDA_HOME, in /usr/local/cuda; None where it is not."""
    homes = [os.environ[key] for key in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(key)]
    places = [os.environ.get("PATH", ""), *(f"{home}/bin" for home in homes), "/usr/local/cuda/bin"]
    found = shutil.which(name, path=os.pathsep.join(places))
    return None if found is None else Path(found)


def _run(home: Path, plan: Mapping[str, Any], tool: list[str], deadline_s: float) -> tuple[Outcome, str]:
    """Run a tool over the harness in `home`: how it ended, and its log, a file apart from what the kernel prints."""
    (home / "plan.json").write_text(json.dumps(plan))
    harness = [sys.executable, "-m", "kforecast.bench.devices.cuda.standalone", str(home / "plan.json")]
    log = home / _LOG
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    outcome = run_limited(
        [*tool, *harness],
        cwd=home,
        deadline_s=deadline_s,
        limits=_LIMITS,
        environment=clean_environment(home, kept),
    )
    return outcome, log.read_text(errors="replace") if log.exists() else ""


def _bytes(task: Task, case: Case) -> int:
    return sum(bytes_of(tensor, case) for tensor in task.tensors)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
