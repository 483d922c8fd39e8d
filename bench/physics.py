"""Times against the floor: what is faster than a device can be is not believed, whatever the cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..store.models import CaseResult

DOUBTED_BELOW = 0.9
"""Share of the floor under which a time is quarantined: floors follow from measured rates, a few percent wide."""
IMPOSSIBLE_BELOW = 0.5


@dataclass(frozen=True)
class Doubt:
    """Why nobody should believe a measurement; `impossible`: no error of the floor explains it."""

    impossible: bool
    reason: str


def against_floor(cases: Sequence[CaseResult]) -> Doubt | None:
    """What the cases' cold times say against their floors; None where none is below, or none has a floor.

    The candidate's time decides; a baseline below the floor makes the ratio doubtful, and no verdict on the candidate.
    """
    worst: tuple[float, CaseResult] | None = None
    for case in cases:
        if case.floor_us and case.time_us is not None and (worst is None or case.time_us / case.floor_us < worst[0]):
            worst = case.time_us / case.floor_us, case
    if worst is not None and worst[0] < DOUBTED_BELOW:
        return Doubt(worst[0] < IMPOSSIBLE_BELOW, _sentence("it", worst[1].time_us, worst[1]))
    for case in cases:
        if case.floor_us and case.baseline_us is not None and case.baseline_us / case.floor_us < DOUBTED_BELOW:
            return Doubt(False, _sentence("the baseline", case.baseline_us, case))
    return None


def times_text(cases: Sequence[CaseResult]) -> str:
    """The times and floors in words, a line a case: what an impossible measurement read."""
    return "\n".join(
        f"{case.case}: {case.time_us:.3f} us"
        + ("" if case.floor_us is None else f", floor {case.floor_us:.3f} us")
        + ("" if case.baseline_us is None else f", baseline {case.baseline_us:.3f} us")
        for case in cases
        if case.time_us is not None
    )


def _sentence(who: str, time_us: float | None, case: CaseResult) -> str:
    assert time_us is not None and case.floor_us is not None
    return (
        f"{who} took {time_us:.3g} us on {case.case}, {time_us / case.floor_us:.2f} of the {case.floor_us:.3g} us that "
        "this device needs at least"
    )
