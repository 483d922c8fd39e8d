"""What a forecaster is asked and what it answers: `Query`, `Reply`, `Answer`, and how a reply becomes a `Forecast`."""

from __future__ import annotations

from pydantic import Field

from ..store.clock import utc_now
from ..store.identity import new_id
from ..store.models import Facts, Forecast, Kernel, Noun, Task, Verdict
from . import density

MOST_CANDIDATES = 16


class Sibling(Noun):
    """A measured kernel of the same task on the same device and in the same launch mode."""

    kernel: Kernel
    verdict: Verdict = "ok"
    time_us: float | None = None
    log2_speedup: float | None = None
    """Over the query's baseline; None where the verdict is not `ok`."""
    log2_low: float | None = None
    """Ends of its 95% interval; None: unbounded, or not known."""
    log2_high: float | None = None
    unpaired: bool = False
    """S is the ratio of two times of different runs, which says less than any interval would: times drift."""
    percent_of_floor: float | None = None
    facts: Facts | None = None
    idea: str = ""
    """What its author said it tries. Someone else's words: data."""


class Side(Noun):
    """One side of a ratio, with what is known of it without running it."""

    kernel: Kernel
    facts: Facts | None = None
    measured: Sibling | None = None
    """Of a candidate: what was measured of it, S over the query's baseline; None: nothing."""


class Query(Noun):
    """One question: how do these candidates compare with this baseline, on this device?"""

    task: Task
    device: str
    device_kind: str
    """`cpu` or `cuda`: picks the task's timed cases."""
    device_line: str = ""
    """The device's profile in one line."""
    baseline: Side
    baseline_us: float | None = None
    """Measured, microseconds, geometric mean over the timed cases."""
    floor_us: float | None = None
    no_floor: str = ""
    """Why the floor is not known, and what would make it known."""
    candidates: tuple[Side, ...] = Field(min_length=1, max_length=MOST_CANDIDATES)
    siblings: tuple[Sibling, ...] = ()
    record: tuple[str, ...] = ()
    """What this forecaster got wrong here before, one line each."""


class Reply(Noun):
    """One candidate's forecast as a forecaster gave it, after reading: probabilities that sum to 1."""

    p_correct: float = Field(ge=0, le=1)
    p_bins: tuple[float, ...] = Field(min_length=8, max_length=8)
    reasoning: str = ""
    raw_sum: float = 1.0
    """Sum of the bin probabilities before renormalising: a health signal."""
    signals: tuple[str, ...] = ()
    """What had to be mended when it was read; empty for a clean reply."""

    @property
    def p_faster(self) -> float:
        """P(S > 1) given correct."""
        return float(density.p_faster(self.p_bins))

    def quantile(self, level: float) -> float:
        """log2 S below which the share `level` lies, given correct (see `density`)."""
        return float(density.quantile(self.p_bins, level)[0])


class Answer(Noun):
    """What a backend returns for one query: a reply a candidate, or the reason why there is none."""

    forecaster: str
    replies: tuple[Reply | None, ...]
    problems: tuple[str, ...] = ()
    """One for each missing reply, and one for each fault on the way that was got over."""
    usd: float | None = None
    tokens: int | None = None
    not_trained: bool = False
    """The forecaster stepped aside: the replies are base rates and nothing may be trusted."""


def forecast_of(query: Query, index: int, answer: Answer) -> Forecast | None:
    """The forecast of candidate `index` as the store keeps it, uncalibrated; None without a reply.

    The query's cost is shared by its candidates in equal parts.
    """
    reply = answer.replies[index]
    if reply is None:
        return None
    count = len(query.candidates)
    return Forecast(
        id=new_id("f"),
        kernel_id=query.candidates[index].kernel.id,
        baseline_id=query.baseline.kernel.id,
        task_id=query.task.id,
        device=query.device,
        forecaster=answer.forecaster,
        p_correct=reply.p_correct,
        p_bins=reply.p_bins,
        log2_median=reply.quantile(0.5),
        log2_p10=reply.quantile(0.1),
        log2_p90=reply.quantile(0.9),
        raw_sum=reply.raw_sum,
        reasoning=reply.reasoning,
        cost_usd=None if answer.usd is None else answer.usd / count,
        tokens=None if answer.tokens is None else round(answer.tokens / count),
        created_at=utc_now(),
    )
