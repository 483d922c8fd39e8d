"""What a forecast answers: flat, with what to do about it. The command line prints these fields, an agent gets them."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ..store.models import DecisionKind, Facts, Forecast
from ..surrogate.contract import Reply
from ..surrogate.decision import Decided
from ..surrogate.decision import Said as Side
from ..surrogate.density import opened
from .measured import NAME as MEASURED
from .measured import Told
from .pairs import Standing
from .words import ratio_text, span_text

CalibrationState = Literal["local", "atlas", "none", "not_trained_for_this_device", "measured"]
_REASON = 220
_ERROR = 120


class Answer(BaseModel):
    """Base of the answers below: immutable plain data."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CalibrationAnswer(Answer):
    """On what the probabilities stand. verified_pairs: kernels of this device that this forecaster forecast before they
    were measured."""

    state: CalibrationState
    verified_pairs: int


class CompileAnswer(Answer):
    """The candidate's compile facts: the most of any entry, the lowest occupancy (0..1). None: not known."""

    ok: bool
    error: str | None
    registers: int | None
    spill_bytes: int | None
    shared_bytes: int | None
    occupancy: float | None


class ForecastResult(Answer):
    """The answer of `forecast`.

    Probabilities and S are calibrated; p_faster, S and p_bins hold given that the kernel is correct. speedup_p10 and
    speedup_p90 are the ends of the 80% interval; null: it is open there, below 1/4 or above 4, where no bin ends. A
    field without a value is null. calibration.state: `none` means that nothing is promised; the ranking is still worth
    something. Where backend is `measured` nobody forecast: S follows from what was measured, and no forecast is kept.
    """

    summary: str
    forecast_id: str | None
    candidate_id: str
    baseline_id: str
    baseline_chosen_because: str
    decision: DecisionKind
    answer: Side
    reason: str
    p_correct: float | None
    p_faster: float | None
    speedup_median: float | None
    speedup_p10: float | None
    speedup_p90: float | None
    p_bins: tuple[float, ...] | None = Field(description="P of S in (0, 1/4], 1/2, 0.71, 1, 1.41, 2, 4, above")
    alpha: float
    calibration: CalibrationAnswer
    compile: CompileAnswer | None
    backend: str
    cost_usd: float | None
    already_measured: str | None
    brief: str | None = None
    next: str


def forecast_result(
    *,
    called: str,
    against: str,
    candidate_id: str,
    baseline_id: str,
    because: str,
    backend: str,
    forecast: Forecast | None,
    reply: Reply | None,
    decided: Decided,
    audited: bool,
    standing: Standing,
    not_trained: bool,
    facts: Facts | None,
    already_measured: str | None,
    told: Told | None = None,
    brief: str | None = None,
    hint: str = "",
) -> ForecastResult:
    """The answer for one candidate. reply: calibrated. called, against: candidate and baseline as people call them.
    audited: the audit drew it. told: what measurements say, which then stands instead of a forecast. hint: what the
    choice of backend left to say. What does not compile is not correct and has no S, whatever was forecast of it."""
    calibration = standing.calibration
    fails = facts is not None and not facts.ok
    wrong = told is not None and told.log2 is None
    known = None if reply is None else reply.p_correct
    if fails or wrong:
        reply = None
    span = _span(reply, told)
    if told is not None:
        backend, hint = MEASURED, ""
    return ForecastResult(
        summary=f"{called} does not compile: drop it."
        if fails
        else _summary(called, against, reply, decided, span, told),
        forecast_id=None if forecast is None else forecast.id,
        candidate_id=candidate_id,
        baseline_id=baseline_id,
        baseline_chosen_because=because,
        decision=decided.kind,
        answer=decided.answer,
        reason=_short(decided.reason, _REASON),
        p_correct=0.0 if fails else None if known is None else round(known, 3),
        p_faster=None if reply is None else round(reply.p_faster, 3),
        speedup_median=span[0],
        speedup_p10=span[1],
        speedup_p90=span[2],
        p_bins=None if reply is None else tuple(round(p, 3) for p in reply.p_bins),
        alpha=standing.promise.alpha,
        calibration=CalibrationAnswer(
            state="measured" if told else "not_trained_for_this_device" if not_trained else calibration.state,
            verified_pairs=calibration.pairs,
        ),
        compile=None if facts is None else compile_answer(facts),
        backend=backend,
        cost_usd=None if forecast is None else forecast.cost_usd,
        already_measured=already_measured,
        brief=brief,
        next=" ".join(filter(None, (_next(candidate_id, backend, decided, audited, already_measured, told), hint))),
    )


def compile_answer(facts: Facts) -> CompileAnswer:
    """Facts of all entries in one line."""

    def most(name: str) -> int | None:
        return max((value for entry in facts.entries if (value := getattr(entry, name)) is not None), default=None)

    return CompileAnswer(
        ok=facts.ok,
        error=None if facts.error is None else _short(facts.error, _ERROR),
        registers=most("registers"),
        spill_bytes=most("spill_bytes"),
        shared_bytes=most("shared_bytes"),
        occupancy=min((e.occupancy for e in facts.entries if e.occupancy is not None), default=None),
    )


def _summary(called: str, against: str, reply: Reply | None, decided: Decided, span: _Span, told: Told | None) -> str:
    verb = {"trust": "trust it", "measure": "measure it", "drop": "drop it"}[decided.kind]
    if reply is None:
        what = "no forecast" if told is None else "it was found not to be right"
        return f"{called} against {against}: {what}; {verb}."
    said = f"{called} against {against}: S = {ratio_text(span[0])} (80% interval {span_text(span[1], span[2])})"
    if told is not None:
        whence = "as measured" if len(told.of) == 1 else f"by {len(told.of)} measurements of other pairs"
        return f"{said}, {whence}; {verb}."
    return f"{said}, {reply.p_faster:.0%} faster if correct ({reply.p_correct:.0%}); {verb}."


def _next(
    candidate: str, backend: str, decided: Decided, audited: bool, measured: str | None, told: Told | None
) -> str:
    if told is not None and measured is None:
        return "Skip it." if decided.kind == "drop" else f"Measure {candidate}: only that settles the pair itself."
    if measured is not None:
        return f"Read {measured}: the pair is measured, and that counts more than any forecast."
    if audited:
        return f"Measure {candidate} all the same: the audit drew it, and only audits keep the promise honest."
    if decided.kind != "measure":
        return _AFTER[decided.kind, decided.answer].format(candidate=candidate)
    if backend.startswith("agent:"):
        return f"Measure {candidate}: it settles this and adds a verified pair to your record."
    return (
        f"Measure {candidate}, or forecast it yourself first: ask with detail=brief for measured siblings, then with "
        "own={p_correct, p_bins, forecaster}. That is the surest forecast there is, and calibrated on your record."
    )


_AFTER: dict[tuple[DecisionKind, Side], str] = {
    ("trust", "faster"): "Build on {candidate}; measure it before you call it a win.",
    ("trust", "slower"): "Skip it and try the next idea.",
    ("trust", "unsure"): "Go on.",
    **dict.fromkeys(
        (("drop", "faster"), ("drop", "slower"), ("drop", "unsure")),
        "Fix it or try another idea; forecast again after a change.",
    ),
}

_Span = tuple[float | None, float | None, float | None]
"""Median of S and the ends of its 80% interval; None: not known, or open."""


def _span(reply: Reply | None, told: Told | None) -> _Span:
    if reply is None:
        return None, None, None
    if told is not None and told.log2 is not None:
        middle, low, high = told.log2
    else:
        middle = reply.quantile(0.5)
        low, high = map(float, opened(reply.quantile(0.1), reply.quantile(0.9)))
    return _speedup(middle), _speedup(low), _speedup(high)


def _speedup(log2: float) -> float | None:
    return float(f"{2.0**log2:.4g}") if math.isfinite(log2) else None


def _short(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."
