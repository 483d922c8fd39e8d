"""What a measurement answers: flat, with the units in the names, and in words what it means and what to do next.

The command line prints these fields and an agent gets them. A field without a value is null, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ..store.errors import KforecastError
from ..store.models import CaseResult, Comparison, Lane, Measurement, Request, Verdict
from .next_steps import next_step
from .words import first_line, interval_words, mismatch_words, ratio_text, time_text

State = Literal["working", "completed", "failed", "cancelled"]


class Answer(BaseModel):
    """Base of the answers below: immutable plain data."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class WorstCase(Answer):
    """The timed case with the smallest S."""

    case: str
    speedup: float


class MismatchAnswer(Answer):
    """The first wrong element of the output tensor `tensor`; `error` and `limit` are scaled errors, without a unit."""

    case: str
    tensor: str
    index: tuple[int, ...]
    got: str
    want: str
    error: float | None
    limit: float | None
    explanation: str


class CaseAnswer(Answer):
    """One timed case. Times in microseconds, cold caches unless `warm` is in the name; S = baseline time / time."""

    case: str
    time_us: float | None
    time_warm_l2_us: float | None
    baseline_us: float | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    percent_of_floor: float | None


class MeasureResult(Answer):
    """The answer of `measure`.

    speedup: S, the geometric mean over the timed cases of baseline time / candidate time, with its interval.
    time_us, time_warm_l2_us, baseline_us: geometric means over the timed cases, cold caches unless `warm` is in the
    name. percent_of_floor: 100 x floor / time; 100 is the floor itself. noise_pct: A/A noise of the blocks measured.
    """

    summary: str
    measurement_id: str | None = None
    request_id: str | None = None
    """What to ask for while there is no measurement yet."""
    state: State
    queue_position: int | None = None
    eta_s: float | None = None
    poll_after_s: float | None = None
    verdict: Verdict | None = None
    reason: str | None = None
    comparison: Comparison | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    time_us: float | None = None
    time_warm_l2_us: float | None = None
    baseline_us: float | None = None
    percent_of_floor: float | None = None
    worst_case: WorstCase | None = None
    mismatch: MismatchAnswer | None = None
    diagnostics: str | None = None
    labels: tuple[str, ...] = ()
    lane: Lane | None = None
    isolation: str | None = None
    noise_pct: float | None = None
    forecast_hit: bool | None = None
    next: str
    kernel_id: str | None = None
    baseline_id: str | None = None
    task: str | None = None
    device: str | None = None
    name: str | None = None
    cases: tuple[CaseAnswer, ...] = ()
    notes: tuple[str, ...] = ()
    """What people should know of the numbers, as sentences: stopped early, noisy, host-limited."""

    @property
    def ok(self) -> bool:
        """Whether the kernel was found right."""
        return self.verdict == "ok"


def measure_result(
    measurement: Measurement,
    *,
    name: str,
    baseline_name: str | None = None,
    forecast_hit: bool | None = None,
) -> MeasureResult:
    """The answer for a finished measurement.

    name: the kernel as people call it (its file); baseline_name: likewise, e.g. `the seed kernel`; None prints its id.
    forecast_hit: whether an earlier forecast of this pair held S in its interval; None without one.
    """
    against = baseline_name or measurement.baseline_id
    mismatch = measurement.mismatch
    worst = min(
        (case for case in measurement.cases if case.log2_speedup is not None),
        key=lambda case: case.log2_speedup or 0.0,
        default=None,
    )
    return MeasureResult(
        summary=_summary(measurement, name, against),
        measurement_id=measurement.id,
        request_id=measurement.request_id,
        state="completed",
        verdict=measurement.verdict,
        reason=measurement.reason or None,
        comparison=measurement.comparison,
        speedup=_ratio(measurement.log2_speedup),
        speedup_low=_ratio(measurement.log2_low),
        speedup_high=_ratio(measurement.log2_high),
        time_us=measurement.time_us,
        time_warm_l2_us=measurement.time_warm_us,
        baseline_us=measurement.baseline_us,
        percent_of_floor=measurement.percent_of_floor,
        worst_case=None
        if worst is None or worst.log2_speedup is None
        else WorstCase(case=worst.case, speedup=2.0**worst.log2_speedup),
        mismatch=None
        if mismatch is None
        else MismatchAnswer(
            case=mismatch.case,
            tensor=mismatch.tensor,
            index=mismatch.index,
            got=mismatch.got,
            want=mismatch.want,
            error=_finite(mismatch.error),
            limit=_finite(mismatch.limit),
            explanation=mismatch.explanation,
        ),
        diagnostics=measurement.diagnostics or None,
        labels=_labels(measurement),
        lane=measurement.lane,
        isolation=measurement.isolation or None,
        noise_pct=measurement.noise_pct,
        forecast_hit=forecast_hit,
        next=next_step(measurement),
        kernel_id=measurement.kernel_id,
        baseline_id=measurement.baseline_id,
        task=measurement.task_name,
        device=measurement.device,
        name=name,
        cases=tuple(_case(case) for case in measurement.cases),
        notes=measurement.notes,
    )


def pending_result(
    request: Request,
    *,
    name: str,
    kernel_id: str | None = None,
    task: str | None = None,
    queue_position: int | None = None,
    eta_s: float | None = None,
) -> MeasureResult:
    """The answer for a request that has no measurement: still queued or worked on, failed, or cancelled."""
    if request.state in ("queued", "working"):
        state: State = "working"
        place = f", {queue_position} before it in the queue" if queue_position else ""
        summary = f"{name}: measuring on {request.device} has not finished{place}."
        step = f"Ask again for {request.id}; the work goes on without you."
    elif request.state == "cancelled":
        state = "cancelled"
        summary = f"{name}: the measurement was cancelled before it finished."
        step = "Measure again if you still want the answer."
    else:
        state = "failed"
        error = request.error or {}
        summary = f"{name} was not measured: {error.get('what', 'the machinery failed')}."
        step = str(error.get("next") or "Run `kforecast doctor`, then measure again.")
    return MeasureResult(
        summary=summary,
        request_id=request.id,
        state=state,
        queue_position=queue_position if state == "working" else None,
        eta_s=eta_s if state == "working" else None,
        poll_after_s=1.0 if state == "working" else None,
        reason=summary if state == "failed" else None,
        next=step,
        kernel_id=kernel_id,
        task=task,
        device=request.device,
        name=name,
    )


@dataclass(frozen=True)
class Ranked:
    """One row of a ranking. rank: 1 is best, shared by kernels that cannot be told apart; None: nothing to rank by."""

    index: int
    """Position in the input order."""
    rank: int | None
    shared: bool
    result: MeasureResult | KforecastError


def rank(results: Sequence[MeasureResult | KforecastError]) -> list[Ranked]:
    """The answers of one task, device and baseline, best first; those without a usable time below, in input order.

    Kernels share a rank when they cannot be told from the best one of that rank: their intervals of S overlap, or,
    where no ratio was measured, their times differ by less than the A/A noise of both. Ranks count as in sport: 1, 2,
    2, 4. A quarantined measurement is not ranked.
    """
    usable: list[tuple[int, MeasureResult, float, float, float]] = []
    rest: list[Ranked] = []
    with_ratio = all(not isinstance(r, KforecastError) and (not r.ok or r.speedup is not None) for r in results)
    for index, result in enumerate(results):
        span = None if isinstance(result, KforecastError) or not result.ok else _goodness(result, with_ratio)
        if span is None or isinstance(result, KforecastError):
            rest.append(Ranked(index, None, False, result))
        else:
            usable.append((index, result, *span))
    usable.sort(key=lambda row: -row[2])
    groups: list[list[tuple[int, MeasureResult, float, float, float]]] = []
    for row in usable:
        if groups and row[4] >= groups[-1][0][3]:
            groups[-1].append(row)
        else:
            groups.append([row])
    ranked: list[Ranked] = []
    for group in groups:
        place = len(ranked) + 1
        ranked.extend(Ranked(row[0], place, len(group) > 1, row[1]) for row in group)
    return ranked + rest


def _goodness(result: MeasureResult, with_ratio: bool) -> tuple[float, float, float] | None:
    """Value, low and high end of what is ranked, larger is better: S, else minus the time; None where neither is."""
    if "quarantined" in result.labels:
        return None
    if with_ratio and result.speedup is not None:
        return result.speedup, result.speedup_low or result.speedup, result.speedup_high or result.speedup
    if result.time_us is None:
        return None
    spread = 1 + (result.noise_pct or 0.0) / 100
    return -result.time_us, -result.time_us * spread, -result.time_us / spread


def _ratio(log2_value: float | None) -> float | None:
    """2 to the given power; None where there is none or it is unbounded (a censored interval)."""
    return None if log2_value is None or not math.isfinite(log2_value) else 2.0**log2_value


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _case(case: CaseResult) -> CaseAnswer:
    return CaseAnswer(
        case=case.case,
        time_us=case.time_us,
        time_warm_l2_us=case.time_warm_us,
        baseline_us=case.baseline_us,
        speedup=_ratio(case.log2_speedup),
        speedup_low=_ratio(case.log2_low),
        speedup_high=_ratio(case.log2_high),
        percent_of_floor=case.percent_of_floor,
    )


def _labels(measurement: Measurement) -> tuple[str, ...]:
    """The measurement's labels, and its own states that change what the numbers are worth."""
    states = {"censored": measurement.censored, "quarantined": measurement.quarantine is not None}
    return (*measurement.labels, *(name for name, held in states.items() if held and name not in measurement.labels))


def _summary(measurement: Measurement, name: str, against: str | None) -> str:
    if measurement.verdict != "ok":
        return _failure(measurement, name)
    times = "" if measurement.time_us is None else f"{time_text(measurement.time_us)} cold on {measurement.device}"
    if measurement.percent_of_floor is not None:
        times += f", {measurement.percent_of_floor:.0f}% of the floor"
    if measurement.quarantine is not None:
        head = f"{name} is correct, but its time is in quarantine ({measurement.quarantine}); do not believe it yet"
        return f"{head}; {times}." if times else f"{head}."
    if measurement.log2_speedup is None or against is None:
        return f"{name} is correct{f': {times}' if times else ''}; nothing to compare it with."
    ratio = f"S = {ratio_text(_ratio(measurement.log2_speedup))}"
    interval = interval_words(_ratio(measurement.log2_low), _ratio(measurement.log2_high), measurement.confidence)
    head = f"{name} is correct and {_COMPARISON[measurement.comparison].format(against=against)}: {ratio}{interval}"
    early = " (a rough reading: stopped early because it is clearly slower)" if measurement.censored else ""
    return f"{head}{early}; {times}." if times else f"{head}{early}."


_COMPARISON: dict[Comparison, str] = {
    "faster": "faster than {against}",
    "slower": "slower than {against}",
    "tie": "ties with {against}",
    "unclear": "not yet told from {against}",
    "none": "not compared with {against}",
}


def _failure(measurement: Measurement, name: str) -> str:
    reason = first_line(measurement.reason)
    match measurement.verdict:
        case "incorrect" if measurement.mismatch is not None:
            return f"{name} is incorrect: {mismatch_words(measurement.mismatch)}."
        case "compile_error":
            return f"{name} does not compile: {reason}"
        case "timeout":
            return f"{name} did not finish before its deadline: {reason}"
        case "unsupported":
            return f"{name} is unsupported here: {reason}"
        case "impossible":
            return f"{name} claims an impossible time: {reason}"
        case verdict:
            return f"{name}: {verdict.replace('_', ' ')}: {reason}"
