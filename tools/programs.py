"""The use case `measure` for a program with a `main()` of its own: what it did on the GPU, and for how long.

Nobody said what such a program should compute, so there is no verdict: it `ran`, or it did not.
"""

from __future__ import annotations

import math
import random
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..bench.broker.lock import device_lock
from ..bench.devices.catalogue import device_kind, normal_name, ordinal_of
from ..bench.header.files import language_of_file, read_includes, read_source
from ..bench.header.options import check_options
from ..bench.labels import labels, policy_names
from ..bench.programs.activity import Activity, read_activity
from ..bench.programs.build import BuiltProgram, build_program
from ..bench.programs.cupti import Cupti, find_cupti, injection
from ..bench.programs.run import OUTPUT_BYTES, Ran, run_program
from ..bench.programs.source import has_main, is_program
from ..bench.timing.intervals import interval
from ..store import programs
from ..store.clock import utc_now
from ..store.database import Store
from ..store.errors import InputError, UnsupportedError
from ..store.identity import content_id, new_id, normalise_source
from ..store.models import DeviceWork, Noun, ProgramOutcome, ProgramRun
from ..store.paths import cache_dir

DEADLINE_S = 60.0
PAIRS = 8
"""Runs of each side in a comparison: what an exact 95% interval takes, and two more."""
_ALPHA = 0.05

Progress = Callable[[str], None]


class ProgramComparison(Noun):
    """Kernel time of two programs over `pairs` runs of each, in random order: the baseline's over the program's."""

    baseline: str
    ratio: float
    low: float | None
    high: float | None
    confidence: float
    pairs: int


class ProgramResult(Noun):
    """What `measure` answers for a program."""

    summary: str
    run: ProgramRun
    comparison: ProgramComparison | None
    next: str


@dataclass(frozen=True)
class _Gpu:
    device: str
    device_id: str
    arch: str


@dataclass(frozen=True)
class _Side:
    """One program, read and compiled."""

    called: str
    source: str
    built: BuiltProgram


def measure_program(
    path: str,
    *,
    baseline: str | None = None,
    device: str | None = None,
    options: Sequence[str] = (),
    timeout_s: float | None = None,
    store: Store | None = None,
    on_progress: Progress = lambda text: None,
) -> ProgramResult:
    """Compile a CUDA program with nvcc, run it apart, and say what its kernels took. The run is stored.

    baseline: another program; then both run eight times in random order and their kernel times are compared. timeout_s:
    deadline of one run (60 s). Raises InputError for the file and its options, UnsupportedError for a program in C,
    DeviceError where there is no GPU, no nvcc, or the machinery fails. A program that does not compile, fails, crashes
    or hangs is an answer.
    """
    _refuse(path, device)
    if baseline in ("none", ""):
        baseline = None
    if baseline is not None:
        _refuse(baseline, device)
    chosen = check_options(options, "cuda")
    gpu = _gpu(device)
    on_progress("compiling")
    side = _read(path, chosen, gpu)
    against = None if baseline is None else _read(baseline, chosen, gpu)
    if against is not None and against.built.path is None:
        raise _no_measure(against, str(against.built.error))
    deadline_s = timeout_s or DEADLINE_S
    cupti = find_cupti()
    comparison = None
    with device_lock(gpu.device_id, device=gpu.device, purpose=f"measure the program {side.called}"):
        on_progress("running")
        run = _run(side, gpu, deadline_s, cupti)
        if against is not None and run.outcome == "ran":
            comparison = _compare(side, against, run, gpu, deadline_s, cupti, on_progress)
    opened = store or Store.open()
    try:
        programs.save(opened, run)
    finally:
        if store is None:
            opened.close()
    return ProgramResult(summary=_summary(run, comparison), run=run, comparison=comparison, next=_next(run))


def _refuse(path: str, device: str | None) -> None:
    if language_of_file(Path(path)) != "cuda" or (device is not None and device_kind(device) != "cuda"):
        raise UnsupportedError(
            "only CUDA programs are run: a C program is measured by no clock of ours",
            value=path,
            next_step="Give the function that counts a kernel header; then `kforecast measure` calls and checks it.",
        )
    if not is_program(path):
        source = read_source(Path(path))
        raise InputError(
            "this is no program: it has " + ("a kernel header" if has_main(source) else "no main()"),
            value=path,
            next_step="Compare programs with programs, and kernels with kernels.",
        )


def _gpu(device: str | None) -> _Gpu:
    from ..bench.devices.cuda.device import device_facts

    name = normal_name(device or "cuda:0")
    facts = device_facts(ordinal_of(name))
    return _Gpu(name, facts.uuid, facts.arch)


def _read(path: str, options: Sequence[str], gpu: _Gpu) -> _Side:
    source = read_source(Path(path))
    includes = read_includes(source, (), Path(path).parent)
    built = build_program(source, includes, name=Path(path).name, arch=gpu.arch, options=options)
    return _Side(path, source, built)


def _run(side: _Side, gpu: _Gpu, deadline_s: float, cupti: Cupti | None) -> ProgramRun:
    """One run, with everything there is to say about it."""
    built = side.built
    common: dict[str, Any] = {
        "id": new_id("x"),
        "name": Path(side.called).name,
        "source": side.source,
        "source_id": content_id("s", {"program": normalise_source(side.source, "cuda")}),
        "device": gpu.device,
        "device_id": gpu.device_id,
        "labels": policy_names(labels(side.source, "cuda")),
        "diagnostics": built.log[:16384],
        "toolchain": f"nvcc, {gpu.arch}",
        "created_at": utc_now(),
    }
    if built.path is None:
        nothing: dict[str, Any] = {"exit_code": None, "kernel_us": None, "wall_s": None}
        return ProgramRun(outcome="compile_error", reason=str(built.error), **common, **nothing)
    ran, states = _once(side, gpu, deadline_s, cupti)
    activity = read_activity(ran.activity)
    outcome, reason = _outcome(ran, deadline_s)
    counted = cupti is not None and (bool(ran.activity) or outcome == "ran") and not activity.failures
    return ProgramRun(
        **common,
        outcome=outcome,
        reason=reason,
        exit_code=ran.code if ran.ended == "exit" else -ran.code if ran.ended == "signal" else None,
        kernels=tuple(DeviceWork(**asdict(kind)) for kind in activity.kernels),
        copies=tuple(DeviceWork(**asdict(kind)) for kind in activity.copies),
        kernel_us=activity.kernel_us if counted else None,
        wall_s=ran.seconds,
        output=ran.output,
        notes=_notes(ran, activity, cupti),
        isolation=ran.isolation,
        environment={"states": states},
        device_seconds=ran.seconds,
    )


def _once(side: _Side, gpu: _Gpu, deadline_s: float, cupti: Cupti | None) -> tuple[Ran, list[dict[str, Any]]]:
    from ..bench.devices.cuda.monitor import Monitor

    assert side.built.path is not None
    monitor = Monitor(ordinal_of(gpu.device))
    before = monitor.read()
    ran = run_program(
        side.built.path,
        deadline_s=deadline_s,
        library=None if cupti is None else injection(cupti, cache_dir()),
        readable=[] if cupti is None else [cupti.library.parent, cupti.library.resolve().parent],
        environment={"CUDA_VISIBLE_DEVICES": gpu.device_id},
    )
    return ran, [before, monitor.read()]


def _outcome(ran: Ran, deadline_s: float) -> tuple[ProgramOutcome, str]:
    if ran.ended == "deadline":
        return "timeout", f"it had not ended after {deadline_s:g} s and was ended, with everything that it had started"
    if ran.ended == "signal":
        return "crashed", f"it was ended by {_signal(ran.code)}"
    if ran.ended == "stopped":
        return "failed", "it was stopped from outside"
    return ("ran", "") if ran.code == 0 else ("failed", f"it ended with exit code {ran.code}")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _notes(ran: Ran, activity: Activity, cupti: Cupti | None) -> tuple[str, ...]:
    notes = ["whether its results are right is unknown: nobody said what it should compute"]
    if cupti is None:
        notes.append(
            "its kernels were not timed: CUPTI is not here (pip install nvidia-cuda-cupti, or the CUDA toolkit)"
        )
    elif not activity.kernels:
        notes.append("no kernel of it ran to its end")
    notes += [f"not every launch was counted: {failure}" for failure in activity.failures]
    if activity.dropped:
        notes.append(f"{activity.dropped:,} launches are missing: CUPTI dropped their records")
    if ran.cut:
        notes.append(f"its output is cut after {OUTPUT_BYTES >> 10} KiB")
    return tuple(notes)


def _compare(
    side: _Side,
    against: _Side,
    first: ProgramRun,
    gpu: _Gpu,
    deadline_s: float,
    cupti: Cupti | None,
    on_progress: Progress,
) -> ProgramComparison:
    if not first.kernel_us:
        raise UnsupportedError(
            "there is nothing to compare: no kernel of the program was timed",
            value="; ".join(first.notes[1:]) or side.called,
            next_step="Programs are compared by their kernels' time; measure without a baseline to see what it did.",
        )
    ratios = []
    for pair in range(PAIRS):
        on_progress(f"pair {pair + 1} of {PAIRS}")
        times: dict[str, float] = {}
        for one in random.sample([side, against], 2):
            ran, _ = _once(one, gpu, deadline_s, cupti)
            outcome, reason = _outcome(ran, deadline_s)
            kernel_us = read_activity(ran.activity).kernel_us
            if outcome != "ran" or not kernel_us:
                raise _no_measure(one, reason or "no kernel of it was timed")
            times["side" if one is side else "against"] = kernel_us
        ratios.append(math.log2(times["against"] / times["side"]))
    found = interval(ratios, _ALPHA)
    low, high = (2**found.low, 2**found.high) if found.bounded else (None, None)
    ratio = 2**found.center
    return ProgramComparison(
        baseline=against.called, ratio=ratio, low=low, high=high, confidence=1 - _ALPHA, pairs=PAIRS
    )


def _no_measure(side: _Side, reason: str) -> InputError:
    return InputError(
        "a program that does not run to its end is no measure",
        value=f"{side.called}: {reason}",
        next_step="Compare with a program that ends with exit code 0 and launches kernels.",
    )


def _summary(run: ProgramRun, comparison: ProgramComparison | None) -> str:
    if run.outcome != "ran":
        return f"{run.name}: {run.reason}."
    told = f"{run.name} ran to its end; whether it is right is unknown."
    if run.kernel_us is not None:
        launches = sum(kind.launches for kind in run.kernels)
        told += f" {launches:,} launches of {len(run.kernels)} kernels took {run.kernel_us:,.1f} us on {run.device}."
    if comparison is not None:
        told += f" The kernels of {comparison.baseline} take {comparison.ratio:.3f} times as long."
    return told


def _next(run: ProgramRun) -> str:
    if run.outcome == "compile_error":
        return "Fix the first error, then measure again."
    if run.outcome != "ran":
        return "Its output says more; run it with compute-sanitizer to see where a kernel fails."
    return "To have a kernel checked and compared, give it a file and a kernel header of its own (`kforecast tasks`)."
