"""What is measured already is told, not forecast: a kernel found right or wrong, a pair whose S follows from pairs."""

from __future__ import annotations

from dataclasses import dataclass

from ..store.models import Verdict
from ..surrogate.contract import Reply
from ..surrogate.decision import Decided
from ..surrogate.learned.model import bins_of_normal
from .neighbours import Known
from .ratios import Ratio
from .words import interval_text, ratio_text

NAME = "measured"
"""Who forecasts where nobody needs to."""
RIGHT_AGAIN = 0.98
"""P(correct) of a kernel found right the last time: other seeds, races and deadlines may still find it out."""
_Z95, _Z80 = 1.96, 1.2816


@dataclass(frozen=True)
class Told:
    """What measurements say of a pair. log2: the median and the ends of the 80% interval of log2 S; None: no S.

    of: the measurements that it follows from; one where it is of this very pair, or of a kernel that was not right.
    """

    reply: Reply
    log2: tuple[float, float, float] | None
    decided: Decided
    of: tuple[str, ...]


def found_right(known: Known, kernel_id: str) -> bool | None:
    """Whether a kernel was right when it was measured last on this device; None: not measured, or not for it."""
    newest = known.newest.get(kernel_id)
    return None if newest is None or newest.verdict == "unsupported" else newest.verdict == "ok"


def told_of(known: Known, kernel_id: str, baseline_id: str) -> Told | None:
    """What follows from what was measured, of one pair of different kernels; None where that is not S."""
    right = found_right(known, kernel_id)
    if right is False:
        newest = known.newest[kernel_id]
        return _wrong(newest.verdict, newest.id)
    ratio = known.ratio(kernel_id, baseline_id)
    if ratio is None or ratio.variance >= _MOST_VARIANCE:
        return None
    return _of_ratio(ratio)


_MOST_VARIANCE = 8.0
"""Square octaves, of both halves: what is known less surely than to two octaves either way had better be forecast."""


def _wrong(verdict: Verdict, measurement: str) -> Told:
    reason = f"Measured already: {verdict.replace('_', ' ')} ({measurement}), which it is against any baseline."
    reply = Reply(p_correct=1 - RIGHT_AGAIN, p_bins=bins_of_normal(0.0, 1.0))
    return Told(reply, None, Decided("drop", "slower", reason), (measurement,))


def _of_ratio(ratio: Ratio) -> Told:
    """Trust for a pair that was measured and is faster; drop for what is slower; the device for all else."""
    direct = ratio.of[0] if len(ratio.of) == 1 else None
    ends = ratio.log2, ratio.log2 - ratio.below * _Z80 / _Z95, ratio.log2 + ratio.above * _Z80 / _Z95
    said = f"S = {ratio_text(2.0**ratio.log2)} (95% interval {interval_text(2.0**ratio.low, 2.0**ratio.high)})"
    said = said.replace(" .. ", " to ")
    head = f"Measured already in {direct}" if direct else f"Follows from {len(ratio.of)} measurements, {_names(ratio)}"
    reply = Reply(p_correct=RIGHT_AGAIN, p_bins=bins_of_normal(ratio.log2, (ratio.below + ratio.above) / (2 * _Z95)))
    if ratio.high < 0:
        return Told(reply, ends, Decided("drop", "slower", f"{head}: {said}."), ratio.of)
    if ratio.low > 0 and direct:
        return Told(reply, ends, Decided("trust", "faster", f"{head}: {said}."), ratio.of)
    if ratio.low > 0:
        why = "Only the pair itself, measured, is a win."
        return Told(reply, ends, Decided("measure", "faster", f"{head}: {said}. {why}"), ratio.of)
    return Told(reply, ends, Decided("measure", "unsure", f"{head}: {said}, which may be either way."), ratio.of)


def _names(ratio: Ratio) -> str:
    return " and ".join(ratio.of) if len(ratio.of) == 2 else ", ".join(ratio.of)
