"""Trust, measure or drop: the decision on a forecast, with the reason and the numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..store.clock import utc_now
from ..store.identity import new_id
from ..store.models import Decision, DecisionKind, Facts
from .calibration.audit import RATE, audit_probability, drawn
from .calibration.drift import Drift
from .calibration.fit import Calibration
from .calibration.pairs import call_of
from .calibration.promise import Promise
from .contract import Reply

Said = Literal["faster", "slower", "unsure"]
DROP_BELOW = 0.05
"""P(correct and faster), calibrated, below which a candidate is skipped for now."""


@dataclass(frozen=True)
class Decided:
    """A decision before it is stored. `answer` is `unsure` unless the decision says which way it goes."""

    kind: DecisionKind
    answer: Said
    reason: str
    numbers: dict[str, float] = field(default_factory=dict)

    def record(self, forecast_id: str, *, seed: str, rate: float = RATE) -> Decision:
        """The decision as the store keeps it, the audit drawn with its logged probability."""
        decision_id = new_id("d")
        probability = audit_probability(self.kind, rate)
        return Decision(
            id=decision_id,
            forecast_id=forecast_id,
            kind=self.kind,
            reason=self.reason,
            numbers=self.numbers,
            audit_probability=probability,
            audited=self.kind != "measure" and drawn(decision_id, seed, probability),
            created_at=utc_now(),
        )


def decide(
    reply: Reply | None,
    *,
    calibration: Calibration,
    promise: Promise,
    facts: Facts | None = None,
    drift: Drift | None = None,
    not_trained: bool = False,
    same_program: bool = False,
    drop_below: float = DROP_BELOW,
) -> Decided:
    """The decision on one candidate's forecast.

    reply: as the forecaster gave it, uncalibrated; None when it gave none. facts: of the candidate.
    not_trained: the forecaster stepped aside. same_program: candidate and baseline are the same program.
    `trust` exists only under a promise; `drop` needs a calibration; everything else is measured.
    """
    certain = _without_forecast(reply, facts, not_trained, same_program)
    if certain is not None or reply is None:
        return certain or Decided("measure", "unsure", "The forecaster gave no usable answer, so the device decides.")
    call = call_of(reply.p_correct, reply.p_bins)
    calibrated = calibration.apply(reply)
    wins = calibrated.p_correct * calibrated.p_faster
    leans: Said = "faster" if wins > 0.5 else "slower"
    numbers = {
        "confidence": call.confidence,
        "p_correct": calibrated.p_correct,
        "p_faster": calibrated.p_faster,
        "p_wins": wins,
        "alpha": promise.alpha,
        "verified_pairs": float(promise.pairs),
        "wrong_pairs": float(promise.wrong),
        "missing_pairs": float(promise.missing),
    }
    if promise.threshold is not None:
        numbers["threshold"] = promise.threshold
        numbers["bound"] = promise.bound
    trustworthy = promise.covers(call.confidence) and call.side == leans
    if drift is not None and drift.alarm:
        return Decided("measure", "unsure", f"This forecaster has drifted: {drift.reason}.", numbers)
    if trustworthy:
        reason = (
            f"{call.side} with confidence {call.confidence:.2f}; of {promise.pairs} verified answers at least "
            f"{promise.threshold:.2f} sure {promise.wrong} were wrong, so at most {promise.alpha:.0%} are "
            f"(with {1 - promise.delta:.0%} certainty)."
        )
        return Decided("trust", call.side, reason, numbers)
    if calibration.state != "none" and wins <= drop_below:
        chance = f"{wins:.1%} to be correct and faster"
        return Decided("drop", "slower", f"A chance of {chance} is not worth a measurement now.", numbers)
    return Decided("measure", "unsure", _why_measure(call.confidence, promise, call.side == leans), numbers)


def _without_forecast(reply: Reply | None, facts: Facts | None, not_trained: bool, same: bool) -> Decided | None:
    """Decisions that no probability can change."""
    if facts is not None and not facts.ok:
        return Decided("drop", "slower", f"It does not compile: {(facts.error or 'no message').strip()[:200]}")
    if same:
        return Decided("drop", "unsure", "Candidate and baseline are the same program: a tie.")
    if not_trained and reply is not None:
        return Decided("measure", "unsure", "The forecaster is not trained for this device, so the device decides.")
    return None


def _why_measure(confidence: float, promise: Promise, agrees: bool) -> str:
    if promise.threshold is None:
        return (
            f"Nothing may be trusted at alpha {promise.alpha:g} yet: at least {promise.missing} more verified answers "
            f"without an error are missing ({promise.pairs} so far, {promise.wrong} wrong)."
        )
    if not agrees:
        return "Calibration on this device turns the answer round, so the device decides."
    return f"Confidence {confidence:.2f} is below the {promise.threshold:.2f} that holds alpha {promise.alpha:g} here."
