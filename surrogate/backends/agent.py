"""`agent:<name>`: the caller's own probabilities, the strongest forecaster there is, and its track record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...store.errors import InputError
from ...store.models import Noun
from .. import density
from ..calibration.pairs import Pair, one_per_kernel
from ..contract import Answer, Query
from ..reply import reply_from

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,79}")


class Own(Noun):
    """What an agent says of one candidate: numbers as it gives them (see `reply.reply_from`)."""

    p_correct: float | str
    p_bins: tuple[float | str, ...]
    reasoning: str = ""


class AgentBackend:
    """Answers a query with the probabilities that came along with it, one a candidate."""

    def __init__(self, forecaster: str, own: Sequence[Own]) -> None:
        """forecaster: the model that thought, not its client. Raises InputError for unfit names or numbers."""
        if not _NAME.fullmatch(forecaster):
            raise InputError(
                "The forecaster's name must be a short word",
                value=forecaster[:80],
                next_step="Name the model, e.g. its provider's name for it.",
            )
        self.name = f"agent:{forecaster}"
        self._replies = tuple(reply_from(entry.p_correct, entry.p_bins, entry.reasoning) for entry in own)

    def forecast(self, query: Query) -> Answer:
        """Raises InputError where the numbers do not match the candidates one to one."""
        if len(self._replies) != len(query.candidates):
            raise InputError(
                f"There are {len(query.candidates)} candidates",
                value=f"{len(self._replies)} own forecasts",
                next_step="Give p_correct and p_bins for each candidate, in their order.",
            )
        return Answer(forecaster=self.name, replies=self._replies, usd=0.0)


@dataclass(frozen=True)
class TrackRecord:
    """How a forecaster did here, on its own verified pairs, uncalibrated. None: nothing to tell yet."""

    pairs: int
    correct_right: float | None
    """Share whose P(correct) lay on the right side of 1/2."""
    direction_right: float | None
    """Share of the `ok` ones told on the right side of 1; those whose interval holds 1 are left out."""
    absolute_error: float | None
    """Mean |median - log2 S| in octaves."""
    lean: float | None
    """Mean of median - log2 S: above 0 it promises too much."""

    @property
    def line(self) -> str:
        """The record in one line."""
        if not self.pairs:
            return "no verified forecasts yet"
        said = [f"{self.pairs} verified"]
        if self.direction_right is not None:
            said.append(f"direction right {self.direction_right:.0%}")
        if self.absolute_error is not None and self.lean is not None:
            said.append(f"mean error of log2 S {self.absolute_error:.2f} (leans {self.lean:+.2f})")
        if self.correct_right is not None:
            said.append(f"correctness right {self.correct_right:.0%}")
        return ", ".join(said)


def track_record(pairs: Sequence[Pair]) -> TrackRecord:
    """The record over verified pairs, one a kernel."""
    kept = one_per_kernel(pairs)
    timed = [pair for pair in kept if pair.log2_speedup is not None]
    told = [pair for pair in timed if not _holds_one(pair)]
    errors = [_error(pair) for pair in timed]
    return TrackRecord(
        pairs=len(kept),
        correct_right=_mean([(pair.p_correct > 0.5) == pair.ok for pair in kept]),
        direction_right=_mean(
            [(float(density.p_faster(pair.p_bins)) > 0.5) == ((pair.log2_speedup or 0.0) > 0) for pair in told]
        ),
        absolute_error=_mean([abs(error) for error in errors]),
        lean=_mean(errors),
    )


def worst_misses(pairs: Sequence[tuple[Pair, str]], count: int = 3) -> tuple[str, ...]:
    """Lines for the brief: where this forecaster was most surprised, with what each kernel tried (a short text).

    Surprise is the probability it gave to what happened; forecasts that gave it 1/4 or more are no miss.
    """
    surprises = sorted(
        ((_given(pair), pair.kernel_id, pair, what) for pair, what in pairs), key=lambda entry: (entry[0], entry[1])
    )
    return tuple(_miss_line(pair, what) for given, _, pair, what in surprises[:count] if given < 0.25)


def _miss_line(pair: Pair, what: str) -> str:
    tried = " ".join(what.split())[:80]
    if not pair.ok:
        return f"{tried}: said {pair.p_correct:.0%} correct, was not"
    said, was = 2.0 ** float(density.quantile(pair.p_bins, 0.5)[0]), 2.0 ** (pair.log2_speedup or 0.0)
    return f"{tried}: said {said:.2f}x, was {was:.2f}x"


def _given(pair: Pair) -> float:
    """The probability that the forecast gave to the outcome: of an octave around S where it is `ok`."""
    if not pair.ok:
        return 1 - pair.p_correct
    log2 = pair.log2_speedup or 0.0
    window = density.cdf(np.tile(pair.p_bins, (2, 1)), [log2 + 0.5, log2 - 0.5])
    return pair.p_correct * float(window[0] - window[1])


def _holds_one(pair: Pair) -> bool:
    low, high = pair.log2_low, pair.log2_high
    return (pair.log2_speedup or 0.0) == 0 if low is None or high is None else low <= 0 <= high


def _error(pair: Pair) -> float:
    return float(density.quantile(pair.p_bins, 0.5)[0]) - (pair.log2_speedup or 0.0)


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
