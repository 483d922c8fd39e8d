"""One measurement from two kernels to a verdict, the same for every device: compile, check, time in blocks,
conclude.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import geometric_mean

import numpy as np

from ..store.clock import utc_now
from ..store.errors import InputError
from ..store.identity import new_id
from ..store.models import Case, CaseResult, Effort, Facts, Kernel, Measurement, Mismatch, Task, Verdict
from .faults import Cancelled, KernelFault
from .header.options import labels
from .header.signature import signatures
from .labels import kernel_labels, policy_names
from .lane import Lane, Program, Progress, Session, Tool
from .physics import against_floor, times_text
from .timing.intervals import Interval
from .timing.looks import Stop, after
from .timing.plan import SamplingPlan, block_orders, plan_for
from .timing.samples import Block, BlockOrder, BlockSamples, valid_blocks
from .timing.summary import CaseTiming, RatioResult, summarise
from .turns import Held

_QUESTION_S = 0.02
"""What a hand-over of blocks costs besides the blocks themselves, on a GPU that others measure on."""
CANDIDATE_ONLY_BLOCKS = 8
"""Blocks without a baseline: no ratio is at stake, only the times and their spread."""


@dataclass(frozen=True)
class Job:
    """What to measure: a candidate, the baseline it is compared with (None: no ratio), on one task."""

    task: Task
    candidate: Kernel
    baseline: Kernel | None
    effort: Effort = "normal"
    call_deadline_s: float = 10.0
    time_cap_s: float | None = None
    profile: bool = False
    """Also look inside the candidate with the hardware's counters; what they say goes into the notes."""
    request_id: str | None = None


@dataclass
class _Found:
    """What a measurement has found so far; whatever ends it early, this is what there is to say."""

    verdict: Verdict = "ok"
    reason: str = ""
    diagnostics: str = ""
    facts: Facts | None = None
    mismatch: Mismatch | None = None
    blocks: tuple[Block, ...] = ()
    stop: Stop | None = None
    result: RatioResult | None = None
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    quarantine: str | None = None
    isolation: str = ""
    launch_mode: str = ""
    environment: dict[str, object] | None = None
    device_seconds: float = 0.0


def measure(
    job: Job,
    lane: Lane,
    *,
    device_lock: Callable[[], AbstractContextManager[Held | None]],
    progress: Progress = lambda text: None,
    cancelled: Callable[[], bool] = lambda: False,
    checked_before: set[str] | None = None,
) -> Measurement:
    """Measure `job.candidate` on `lane`; the result is not stored yet.

    device_lock: held from the first run on the device to the last. Its time, once the lane is ready, is the
    measurement's device seconds; where it yields a Held that takes turns with others, without the seconds waited for
    turns: of several hands on one device these times overlap.
    checked_before: ids of baselines already found right on this device; grown here, so that a batch checks a
    baseline once. Raises Cancelled when `cancelled()` turns true, InputError where the baseline itself is no good,
    DeviceError where the machinery fails. What the candidate does wrong is a verdict, never an exception.
    """
    found = _Found(labels=labels(job.candidate.options, job.candidate.language))
    checked_before = set() if checked_before is None else checked_before
    try:
        progress("compiling")
        candidate = _compile(job.candidate, lane, job.task)
        found.facts = candidate.build.facts
        found.labels += candidate.build.facts.labels
        if not candidate.build.ok:
            raise KernelFault(
                "compile_error", candidate.build.facts.error or "it does not compile", candidate.build.log
            )
        baseline = None if job.baseline is None else _baseline(job.baseline, lane, job.task)
        if cancelled():
            raise Cancelled
        progress("waiting for the device")
        with device_lock() as shared:
            lane.get_ready(cancelled)  # the device's start is nobody's cost
            held = shared or Held()
            held.begin()
            try:
                _on_device(job, lane, held, candidate, baseline, found, progress, cancelled, checked_before)
            finally:
                found.device_seconds = held.seconds
    except KernelFault as fault:
        found.verdict, found.reason = fault.verdict, fault.reason
        found.diagnostics = fault.diagnostics
        found.mismatch = found.mismatch or fault.mismatch
        found.result = None
    return _measurement(job, lane, found)


def _compile(kernel: Kernel, lane: Lane, task: Task) -> Program:
    parsed = signatures(kernel.source, kernel.language, kernel.includes)
    return Program(kernel, parsed, lane.compile(kernel, parsed, task))


def _baseline(kernel: Kernel, lane: Lane, task: Task) -> Program:
    program = _compile(kernel, lane, task)
    if not program.build.ok:
        raise InputError(
            "the baseline does not compile",
            value=f"{kernel.name}: {program.build.facts.error}",
            next_step="Give a baseline that compiles, or `--baseline none` for times without a ratio.",
        )
    return program


def _on_device(
    job: Job,
    lane: Lane,
    held: Held,
    candidate: Program,
    baseline: Program | None,
    found: _Found,
    progress: Progress,
    cancelled: Callable[[], bool],
    checked_before: set[str],
) -> None:
    with lane.session(job.task, call_deadline_s=job.call_deadline_s, cancelled=cancelled) as session:
        try:
            session.add("candidate", candidate)
            if baseline is not None:
                _with_baseline(job, session, baseline, checked_before, lambda: session.add("baseline", baseline))
            found.mismatch = session.check("candidate", job.task.checked, progress) or session.prepare(
                "candidate", progress
            )
            if found.mismatch is not None:
                raise KernelFault("incorrect", found.mismatch.explanation)
            if baseline is not None:
                _with_baseline(
                    job,
                    session,
                    baseline,
                    checked_before,
                    lambda: _check_baseline(job, session, checked_before, progress),
                )
            _time(job, session, lane, held, found, progress, cancelled, baseline is not None)
            _inspect(job, session, held, found, progress)
        finally:
            found.isolation = session.isolation
            found.notes += session.notes
            found.launch_mode = session.launch_mode
            found.environment = session.environment()
            if held.turns is not None:
                found.environment["turns"] = {"waited_s": held.waited_s, "alone_s": held.alone_s}


def _with_baseline(
    job: Job, session: Session, baseline: Program, checked_before: set[str], action: Callable[[], object]
) -> None:
    """Run what may fail because of the baseline: its fault is the caller's input, not the candidate's verdict."""
    try:
        action()
    except KernelFault as fault:
        raise InputError(
            f"the baseline is no measure: its verdict is `{fault.verdict}`",
            value=f"{baseline.kernel.name}: {fault.reason}",
            next_step="Give a baseline that is right, or `--baseline none` for times without a ratio.",
        ) from fault


def _check_baseline(job: Job, session: Session, checked_before: set[str], progress: Progress) -> None:
    assert job.baseline is not None
    cases = () if job.baseline.id in checked_before else job.task.checked
    mismatch = session.check("baseline", cases, progress) or session.prepare("baseline", progress)
    if mismatch is not None:
        raise KernelFault("incorrect", mismatch.explanation)
    checked_before.add(job.baseline.id)


def _time(
    job: Job,
    session: Session,
    lane: Lane,
    held: Held,
    found: _Found,
    progress: Progress,
    cancelled: Callable[[], bool],
    compared: bool,
) -> None:
    cases = job.task.timed_on(lane.kind)
    plan = plan_for(job.effort, sample_s=session.sample_seconds(), cases=len(cases), time_cap_s=job.time_cap_s)
    names = tuple(case.name for case in cases)
    orders: Sequence[BlockOrder] = ["BB"] * CANDIDATE_ONLY_BLOCKS
    if compared:  # twice as many as the plan needs: some blocks may be discarded
        orders = block_orders(2 * plan.most_blocks, np.random.default_rng(secrets.randbits(128)))
    begin = held.seconds
    taken = 0
    while taken < len(orders):
        if cancelled():
            raise Cancelled
        complete = len(valid_blocks(BlockSamples(names, found.blocks))[0])
        block_s = 4 * len(cases) * plan.repetitions * session.sample_seconds()
        ask = _next_question(plan, complete, block_s) - complete if compared else len(orders) - taken
        progress(f"timing block {taken + 1} of at most {plan.most_blocks if compared else len(orders)}")
        part = orders[taken : taken + ask]
        blocks = session.blocks(part, plan.run_of(complete), plan.group_of(complete), plan.repetitions)
        taken += len(blocks)
        found.blocks += blocks
        if compared:
            ratios, groups = valid_blocks(BlockSamples(names, found.blocks))
            answer = after(ratios, plan, held.seconds - begin, groups)
            if isinstance(answer, Stop):
                found.stop = answer
                break
    found.result = summarise(
        BlockSamples(names, found.blocks), plan, found.stop, clock_spread_ns=session.clock_spread_ns
    )


def _inspect(job: Job, session: Session, held: Held, found: _Found, progress: Progress) -> None:
    """Look inside the candidate where asked to, and before a claimed win is believed."""
    tools: list[Tool] = ["profile"] if job.profile else []
    if job.effort == "claim" and found.result is not None and found.result.comparison == "faster":
        tools.append("sanitize")
    for tool in tools:
        with held.alone():
            seen = session.inspect(tool, progress)
        found.notes += seen.notes
        found.labels += seen.labels
        found.quarantine = found.quarantine or seen.quarantine


def _next_question(plan: SamplingPlan, complete: int, block_s: float) -> int:
    """The number of complete blocks at which there is something to ask: a look, the end of a run, and whether the
    candidate is a clear loser, if the blocks until the next look, of `block_s` seconds each, take longer than asking.
    """
    run_end = (plan.run_of(complete) + 1) * plan.blocks_per_run
    due = min(n for n in (*plan.looks, run_end) if n > complete)
    saved_s = (due - plan.censor_blocks) * block_s
    return plan.censor_blocks if complete < plan.censor_blocks < due and saved_s > _QUESTION_S else due


def _measurement(job: Job, lane: Lane, found: _Found) -> Measurement:
    result = found.result
    labels = found.labels + policy_names(kernel_labels(job.candidate, found.facts, job.task))
    cases: tuple[CaseResult, ...] = ()
    if result is not None:
        labels += ("host-limited",) if result.host_limited else ()
        timed = job.task.timed_on(lane.kind)
        cases = tuple(_case(lane, job.task, case, timing) for case, timing in zip(timed, result.cases, strict=True))
        found.notes = (*result.notes, *found.notes)
    doubt = against_floor(cases)
    if doubt is not None and doubt.impossible:
        found.verdict, found.reason, found.diagnostics = "impossible", doubt.reason, times_text(cases)
        result, cases = None, ()
    elif doubt is not None:
        found.quarantine = found.quarantine or doubt.reason
    floors = [case.percent_of_floor for case in cases]
    return Measurement(
        id=new_id("m"),
        request_id=job.request_id,
        kernel_id=job.candidate.id,
        baseline_id=None if job.baseline is None else job.baseline.id,
        task_id=job.task.id,
        task_name=job.task.name,
        device=lane.device,
        device_id=lane.device_id,
        lane=lane.lane,
        launch_mode=found.launch_mode or lane.launch_mode,
        effort=job.effort,
        verdict=found.verdict,
        reason=found.reason,
        comparison="none" if result is None else result.comparison,
        log2_speedup=None if result is None else result.log2_speedup,
        log2_low=None if result is None else result.log2_low,
        log2_high=None if result is None else result.log2_high,
        confidence=None if result is None else result.confidence,
        interval_method=None if result is None else result.interval_method,
        blocks=0 if result is None else result.blocks,
        censored=result is not None and result.censored,
        cases=cases,
        time_us=None if result is None else result.time_us,
        time_warm_us=None if result is None else result.time_warm_us,
        baseline_us=None if result is None else result.baseline_us,
        percent_of_floor=geometric_mean([f for f in floors if f]) if floors and all(floors) else None,
        noise_pct=None if result is None else result.noise_pct,
        mismatch=found.mismatch,
        diagnostics=found.diagnostics[:16384],
        labels=tuple(dict.fromkeys(labels)),
        notes=found.notes,
        isolation=found.isolation,
        facts=found.facts,
        environment=found.environment or {},
        device_seconds=found.device_seconds,
        quarantine=found.quarantine,
        created_at=utc_now(),
    )


def _case(lane: Lane, task: Task, case: Case, timing: CaseTiming) -> CaseResult:
    def centre(interval: Interval | None) -> float | None:
        return None if interval is None else interval.center

    ratio = timing.log2_speedup
    time_us = centre(timing.time_us)
    floor_us = lane.floor_us(task, case)
    return CaseResult(
        case=timing.case,
        time_us=time_us,
        time_warm_us=centre(timing.time_warm_us),
        baseline_us=centre(timing.baseline_us),
        baseline_warm_us=centre(timing.baseline_warm_us),
        log2_speedup=centre(ratio),
        log2_low=ratio.low if ratio is not None and ratio.bounded else None,
        log2_high=ratio.high if ratio is not None and ratio.bounded else None,
        floor_us=floor_us,
        percent_of_floor=100 * floor_us / time_us if floor_us is not None and time_us else None,
    )
