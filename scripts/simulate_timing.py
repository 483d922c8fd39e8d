"""Coverage of the timing intervals by simulation: noise models × efforts, with the looks and every way to stop.

    python scripts/simulate_timing.py                     # the table, some minutes
    python scripts/simulate_timing.py --replicates 4000 --out coverage.json

Each row simulates whole measurements visit by visit, asks `looks.after` after every block as a lane does, and compares
the final interval with the truth. `covered`: share of intervals that hold the truth (aim: 95% or more).
`wrong`: share called faster or slower that is not, the two together (aim: 5% or less).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kforecast.bench.timing.intervals import bootstrap_interval, median_interval, signed_rank_interval
from kforecast.bench.timing.looks import Stop, after
from kforecast.bench.timing.plan import SamplingPlan, block_orders, plan_for
from kforecast.store.models import Effort

Array = NDArray[np.float64]
VISIT_SIGMA = 0.012
"""Noise of one visit in log2: 0.8%."""
Noise = Callable[[np.random.Generator, int], Array]
"""(generator, blocks) -> log2 noise of the visits, (blocks, 4), in the order in which they are taken."""


@dataclass(frozen=True)
class Model:
    """Noise of visits, and what only the candidate has: `extra` noise of its own, and a `process` effect (sd, log2)."""

    name: str
    visits: Noise
    extra: Noise | None = None
    process: float = 0.0
    promised: bool = True
    """Whether the intervals promise coverage under this noise; the others show what breaks."""


def _normal(rng: np.random.Generator, blocks: int) -> Array:
    return rng.normal(0, VISIT_SIGMA, (blocks, 4))


def _heavy(rng: np.random.Generator, blocks: int) -> Array:
    return VISIT_SIGMA * rng.standard_t(2, (blocks, 4))


def _spikes(rng: np.random.Generator, blocks: int) -> Array:
    """A tenth of the visits is delayed, by 10% on average: skewed, alike on both sides."""
    delayed = rng.random((blocks, 4)) < 0.1
    return _normal(rng, blocks) + np.where(delayed, rng.exponential(0.14, (blocks, 4)), 0.0)


def _coarse(rng: np.random.Generator, blocks: int) -> Array:
    """A clock whose steps are as large as the noise: most values tie."""
    return np.round(_normal(rng, blocks) / VISIT_SIGMA) * VISIT_SIGMA


def _drift(rng: np.random.Generator, blocks: int) -> Array:
    """Times grow by 0.7% from visit to visit without end, as when a package heats up."""
    return _normal(rng, blocks) + 0.01 * np.arange(blocks * 4).reshape(blocks, 4)


def autoregressive(length: int, rho: float, sigma: float, rng: np.random.Generator) -> Array:
    """A stationary AR(1) series of the given marginal standard deviation."""
    series = rng.normal(0, sigma, length)
    for index in range(1, length):
        series[index] = rho * series[index - 1] + np.sqrt(1 - rho**2) * series[index]
    return series


def _slow_waves(rng: np.random.Generator, blocks: int) -> Array:
    """Autocorrelated visits (AR(1), 0.95): clocks wander, on both sides, and interleaving cancels most."""
    return autoregressive(blocks * 4, 0.95, 4 * VISIT_SIGMA, rng).reshape(blocks, 4) + _normal(rng, blocks)


def _own_spikes(rng: np.random.Generator, blocks: int) -> Array:
    """A fifth of the candidate's visits is delayed, by 5% on average; the baseline's never."""
    return np.where(rng.random((blocks, 4)) < 0.2, rng.exponential(0.07, (blocks, 4)), 0.0)


def _own_waves(rng: np.random.Generator, blocks: int) -> Array:
    """The candidate alone wanders from block to block (AR(1), 0.7), as its page layout slowly changes."""
    return np.repeat(autoregressive(blocks, 0.7, VISIT_SIGMA, rng)[:, np.newaxis], 4, axis=1)


MODELS: tuple[Model, ...] = (
    Model("normal", _normal),
    Model("heavy tails (t, 2 df)", _heavy),
    Model("spikes on both sides", _spikes),
    Model("coarse clock", _coarse),
    Model("linear drift", _drift),
    Model("slow waves, both sides", _slow_waves),
    Model("spikes on the candidate alone", _normal, extra=_own_spikes),
    Model("processes differ by 1%", _normal, process=0.0144, promised=False),
    Model("slow waves, candidate alone", _normal, extra=_own_waves, promised=False),
)
EFFORTS: tuple[Effort, ...] = ("quick", "normal", "claim")


def blocks_log2(model: Model, effect: float, plan: SamplingPlan, blocks: int, rng: np.random.Generator) -> Array:
    """log2 S of consecutive blocks whose true log2 S is `effect`, but for the model's own noise of the candidate."""
    times = model.visits(rng, blocks)
    own = np.zeros_like(times) if model.extra is None else model.extra(rng, blocks)
    processes = rng.normal(0, model.process, blocks)[[plan.run_of(index) for index in range(blocks)]]
    is_candidate = np.array([[letter == "B" for letter in order] for order in block_orders(blocks, rng)])
    times = times + np.where(is_candidate, own + processes[:, np.newaxis] - effect, 0.0)
    signed: Array = np.where(is_candidate, -times, times).sum(axis=1) / 2
    return signed


def truth(model: Model, effect: float, plan: SamplingPlan) -> float:
    """The pseudo-median of a block's log2 S: of the mean of two independent blocks, from a large sample."""
    if model.extra is None:
        return effect
    sample = blocks_log2(replace(model, process=0.0), effect, plan, 400_000, np.random.default_rng(1))
    return float(np.median((sample[::2] + np.roll(sample[1::2], 1000)) / 2))


def measure(ratios: Sequence[float], plan: SamplingPlan) -> tuple[Stop, int]:
    """What a lane's loop ends with, and after how many blocks."""
    for count in range(1, len(ratios) + 1):
        step = after(ratios[:count], plan, elapsed_s=0.0)
        if isinstance(step, Stop):
            return step, count
    raise RuntimeError("the plan ends at its last look")


@dataclass(frozen=True)
class Outcome:
    """One row: shares 0..1, blocks on average, half-width in log2 in the median."""

    model: str
    effort: str
    effect_log2: float
    replicates: int
    covered: float
    wrong: float
    faster: float
    slower: float
    tie: float
    unclear: float
    blocks: float
    half_width: float
    promised: bool


def simulate(model: Model, effort: Effort, effect: float, replicates: int, seed: int) -> Outcome:
    """Whole measurements of a candidate whose true log2 S is `effect`."""
    rng = np.random.default_rng(seed)
    plan = plan_for(effort, sample_s=1e-3, cases=1)
    true = truth(model, effect, plan)
    stops = []
    for _ in range(replicates):
        ratios = blocks_log2(model, effect, plan, plan.most_blocks, rng)
        stops.append(measure([float(ratio) for ratio in ratios], plan))
    found = [(stop.comparison, stop.interval) for stop, _ in stops]
    said = {kind: sum(comparison == kind for comparison, _ in found) / replicates for kind in _KINDS}
    return Outcome(
        model=model.name,
        effort=effort,
        effect_log2=effect,
        replicates=replicates,
        covered=sum(each is not None and each.low <= true <= each.high for _, each in found) / replicates,
        wrong=(said["faster"] if true <= 0 else 0.0) + (said["slower"] if true >= 0 else 0.0),
        blocks=sum(count for _, count in stops) / replicates,
        half_width=float(np.median([each.half_width for _, each in found if each is not None])),
        promised=model.promised or (effort == "claim" and model.extra is None),
        **said,
    )


_KINDS = ("faster", "slower", "tie", "unclear")


def methods_table(replicates: int, seed: int) -> list[dict[str, object]]:
    """Coverage of each interval alone, without looks, at 95%."""
    rows: list[dict[str, object]] = []
    plan = plan_for("normal", sample_s=1e-3, cases=1)
    for model in MODELS[:7]:
        true = truth(model, 0.0, plan)
        for blocks in (8, 12, 16, 32):
            rng = np.random.default_rng(seed)
            hits = {"signed-rank": 0, "percentile-t": 0, "order statistics": 0}
            for _ in range(replicates):
                data = blocks_log2(model, 0.0, plan, blocks, rng).tolist()
                for name, method in (("signed-rank", signed_rank_interval), ("percentile-t", bootstrap_interval)):
                    found = method(data, 0.05)
                    hits[name] += found.low <= true <= found.high
                found = median_interval(data, 0.05)
                hits["order statistics"] += found.low <= true <= found.high
            rows.append({"model": model.name, "blocks": blocks, **{k: v / replicates for k, v in hits.items()}})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--effects", type=float, nargs="*", default=[0.0, 0.02, 0.5], help="true log2 S")
    parser.add_argument("--efforts", nargs="*", choices=EFFORTS, default=EFFORTS)
    parser.add_argument("--out", type=Path, help="write all rows as JSON")
    arguments = parser.parse_args()
    outcomes = []
    print(f"{'noise':30} {'effort':7} {'log2 S':>7} {'covered':>8} {'wrong':>6} {'blocks':>7} {'±log2':>8}  said")
    for model in MODELS:
        for effort in arguments.efforts:
            for effect in arguments.effects:
                row = simulate(model, effort, effect, arguments.replicates, arguments.seed)
                outcomes.append(row)
                said = " ".join(f"{kind} {getattr(row, kind):.0%}" for kind in _KINDS if getattr(row, kind))
                mark = "" if row.promised else "  (not promised)"
                print(
                    f"{row.model:30} {row.effort:7} {effect:7.3f} {row.covered:8.3f} {row.wrong:6.3f}"
                    f" {row.blocks:7.1f} {row.half_width:8.4f}  {said}{mark}",
                    flush=True,
                )
    methods = methods_table(arguments.replicates, arguments.seed)
    print(
        f"\n{'noise, 95% intervals, no looks':36} {'blocks':>6} {'signed-rank':>12} {'percentile-t':>13} {'order':>7}"
    )
    for line in methods:
        shares = f"{line['signed-rank']:12.3f} {line['percentile-t']:13.3f} {line['order statistics']:7.3f}"
        print(f"{line['model']:36} {line['blocks']:6} {shares}")
    if arguments.out:
        arguments.out.write_text(json.dumps({"looks": [asdict(row) for row in outcomes], "methods": methods}, indent=1))


if __name__ == "__main__":
    main()
