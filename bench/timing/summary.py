"""From raw samples and the reason to stop to what a measurement reports: times, ratios, the worst case, noise,
flags.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from ...store.models import Comparison
from .intervals import Interval, interval, median_interval
from .looks import Stop, finish
from .noise import Noise, correlated, noise_of, too_noisy_for
from .plan import SamplingPlan
from .samples import BlockSamples, Column, Side, case_log2, discarded_share, side_ns, valid_blocks

HOST_LIMIT = 10.0
"""A time below so many times the spread of the null candidate's round trip is the host's as much as the kernel's."""
MOST_DISCARDED = 0.2
"""Share of discarded samples above which a comparison is unclear: what is left may be a biased choice."""
_SEEN_LOG2 = math.log2(1.005)
"""Differences between ratios below this are not seen where two digits after the point are printed."""


@dataclass(frozen=True)
class CaseTiming:
    """One timed case. Times in microseconds; each is the median over the blocks, with an order-statistic interval.

    log2_speedup: log2(baseline time / candidate time) of this case at the level of the measurement's last look.
    None: the side or column was not sampled, or no block is complete.
    """

    case: str
    time_us: Interval | None
    time_warm_us: Interval | None
    baseline_us: Interval | None
    baseline_warm_us: Interval | None
    log2_speedup: Interval | None
    host_limited: bool


@dataclass(frozen=True)
class RatioResult:
    """What the blocks of one measurement say. log2 values are log2 S; the geometric means are over all timed cases.

    confidence: that the interval covers, over all looks; for a censored one what the range of its blocks has. Unbounded
    interval ends are None, as is everything that there is no baseline or no complete block for.
    worst_case: index of the case with the smallest ratio. blocks: complete ones. notes: sentences for people.
    """

    comparison: Comparison
    log2_speedup: float | None
    log2_low: float | None
    log2_high: float | None
    confidence: float | None
    interval_method: str | None
    blocks: int
    groups: int
    censored: bool
    stop_reason: str
    cases: tuple[CaseTiming, ...]
    worst_case: int | None
    time_us: float | None
    time_warm_us: float | None
    baseline_us: float | None
    noise: Noise
    discarded_share: float
    host_limited: bool
    notes: tuple[str, ...]

    @property
    def noise_pct(self) -> float | None:
        return self.noise.percent


def summarise(
    samples: BlockSamples, plan: SamplingPlan, stop: Stop | None, *, clock_spread_ns: float | None = None
) -> RatioResult:
    """Everything a measurement reports of its samples.

    samples: all blocks; plan: the one they were taken by; stop: what `looks.after` said last, None where it never said
    stop: then what there is counts as it is, and where the candidate was sampled alone there is no ratio.
    clock_spread_ns: spread of the null candidate's round trip on this clock, None where the clock is the device's own.
    Errors as `samples.visits`.
    """
    ratios, groups = valid_blocks(samples)
    if stop is None and any(block.order != "BB" for block in samples.blocks):
        stop = finish(ratios, plan, groups)
    level = stop.level if stop is not None else plan.alpha
    noise = noise_of(samples, ratios)
    limit_us = HOST_LIMIT * (clock_spread_ns or 0.0) / 1000
    cases = tuple(_case(samples, index, level, limit_us) for index in range(len(samples.cases)))
    found = stop.interval if stop is not None else None
    discarded = discarded_share(samples.blocks)
    comparison: Comparison = "none" if stop is None else stop.comparison
    host_limited = any(case.host_limited for case in cases)
    if stop is not None and discarded > MOST_DISCARDED:
        comparison = "unclear"
    centers = [case.log2_speedup.center for case in cases if case.log2_speedup is not None]
    confidence = None
    if found is not None and stop is not None:
        confidence = found.confidence if stop.censored else 1 - plan.alpha
    return RatioResult(
        comparison=comparison,
        log2_speedup=None if found is None else found.center,
        log2_low=found.low if found is not None and found.bounded else None,
        log2_high=found.high if found is not None and found.bounded else None,
        confidence=confidence,
        interval_method=None if found is None else found.method,
        blocks=len(ratios),
        groups=len(set(groups)),
        censored=stop is not None and stop.censored,
        stop_reason="" if stop is None else stop.reason,
        cases=cases,
        worst_case=centers.index(min(centers)) if centers and len(centers) == len(cases) else None,
        time_us=_geometric([case.time_us for case in cases]),
        time_warm_us=_geometric([case.time_warm_us for case in cases]),
        baseline_us=_geometric([case.baseline_us for case in cases]),
        noise=noise,
        discarded_share=discarded,
        host_limited=host_limited,
        notes=tuple(
            _notes(plan, stop, noise, centers, discarded=discarded, host_limited=host_limited, blocks=len(ratios))
        ),
    )


def _case(samples: BlockSamples, index: int, level: float, limit_us: float) -> CaseTiming:
    ratios = [ratio for block in samples.blocks if (ratio := case_log2(block, index)) is not None]
    time, baseline = _time_us(samples, "candidate", index, "cold"), _time_us(samples, "baseline", index, "cold")
    return CaseTiming(
        case=samples.cases[index],
        time_us=time,
        time_warm_us=_time_us(samples, "candidate", index, "warm"),
        baseline_us=baseline,
        baseline_warm_us=_time_us(samples, "baseline", index, "warm"),
        log2_speedup=interval(ratios, level) if ratios else None,
        host_limited=any(each is not None and each.center < limit_us for each in (time, baseline)),
    )


def _time_us(samples: BlockSamples, side: Side, index: int, column: Column) -> Interval | None:
    times = [time / 1000 for block in samples.blocks if (time := side_ns(block, side, index, column)) is not None]
    return median_interval(times, 0.05) if times else None


def _geometric(times: Sequence[Interval | None]) -> float | None:
    centers = [time.center for time in times if time is not None]
    return geometric_mean(centers) if centers and len(centers) == len(times) else None


def _notes(
    plan: SamplingPlan,
    stop: Stop | None,
    noise: Noise,
    centers: Sequence[float],
    *,
    discarded: float,
    host_limited: bool,
    blocks: int,
) -> Iterator[str]:
    if stop is not None and stop.reason == "time cap":
        yield f"the time cap of {plan.time_cap_s:g} s ended it after {blocks} of up to {plan.most_blocks} blocks"
    if stop is not None and stop.reason == "blocks gave out":
        yield f"only {blocks} complete blocks were taken, of up to {plan.most_blocks}"
    if stop is not None and stop.censored:
        yield f"clearly slower: stopped after {blocks} blocks, the ratio is a rough reading"
    if discarded > MOST_DISCARDED:
        yield f"{discarded:.0%} of the samples were discarded: inconclusive"
    if host_limited:
        yield "host-limited: so short that waking its process blurs the time; go by the ratio, not by the microseconds"
    if stop is not None and stop.interval is not None and not stop.censored and centers:
        outside = max(min(centers) - stop.interval.center, stop.interval.center - max(centers))
        if outside > _SEEN_LOG2:
            yield (
                f"S over all cases is {2**stop.interval.center:.4g} while the cases' own are {2 ** min(centers):.4g} "
                f"to {2 ** max(centers):.4g}: each is a middle over blocks of its own, and the machine was loud"
            )
    noisy = too_noisy_for(100 * plan.tie_margin, noise, plan.most_blocks)
    if noisy is not None:
        yield noisy
    if correlated(noise, blocks):
        alike = f"autocorrelation {noise.autocorrelation:.2f}"
        yield f"neighbouring blocks are alike ({alike}): the interval may be too narrow"
