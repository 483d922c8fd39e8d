"""From raw samples to the result: known times and ratios must come out, flags must come up."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from kforecast.bench.timing.looks import Stop, after
from kforecast.bench.timing.plan import SamplingPlan, block_orders, plan_for
from kforecast.bench.timing.samples import SIDE_OF_LETTER, Block, BlockSamples, Sample, valid_blocks
from kforecast.bench.timing.summary import RatioResult, summarise

PLAN = plan_for("quick", sample_s=1e-3, cases=2)


def sampled(
    speedups: tuple[float, ...], blocks: int = 8, sigma: float = 0.001, warm: bool = True, discard: float = 0.0
) -> BlockSamples:
    """Cases whose baseline takes 100 us, 200 us, … cold and half of it warm, three repetitions a visit."""
    rng = np.random.default_rng(1)
    made = []
    for order in block_orders(blocks, rng):
        samples = []
        for case, speedup in enumerate(speedups):
            for place, letter in enumerate(order):
                for repetition in range(3):
                    time = 1e5 * (case + 1) / (speedup if letter == "B" else 1.0) * math.exp(rng.normal(0, sigma))
                    dropped = repetition == 0 and bool(rng.random() < discard)
                    cold, also_warm = float(time), float(time) / 2 if warm else None
                    samples.append(Sample(SIDE_OF_LETTER[letter], case, cold, also_warm, place, dropped))
        made.append(Block(order, tuple(samples)))
    return BlockSamples(tuple(f"N={case}" for case in range(len(speedups))), tuple(made))


def measured(samples: BlockSamples, plan: SamplingPlan = PLAN, clock_spread_ns: float | None = None) -> RatioResult:
    ratios, groups = valid_blocks(samples)
    for count in range(1, len(ratios) + 1):
        step = after(ratios[:count], plan, 0.0, groups[:count])
        if isinstance(step, Stop):
            taken = BlockSamples(samples.cases, samples.blocks[:count])
            return summarise(taken, plan, step, clock_spread_ns=clock_spread_ns)
    return summarise(samples, plan, None, clock_spread_ns=clock_spread_ns)


def test_known_times_and_ratios_come_out() -> None:
    result = measured(sampled((2.0, 1.25)))
    assert result.comparison == "faster"
    assert result.log2_speedup == pytest.approx(math.log2(2.0 * 1.25) / 2, abs=0.003)
    assert result.log2_low is not None
    assert result.log2_high is not None
    assert result.log2_low < result.log2_speedup < result.log2_high
    assert (result.confidence, result.interval_method, result.blocks, result.groups) == (0.95, "signed-rank", 8, 1)
    assert result.worst_case == 1
    first, second = result.cases
    assert first.time_us is not None
    assert first.time_us.center == pytest.approx(50.0, rel=0.002)
    assert second.time_us is not None
    assert second.time_us.center == pytest.approx(160.0, rel=0.002)
    assert second.baseline_us is not None
    assert second.baseline_us.low < 200.0 < second.baseline_us.high
    assert first.time_warm_us is not None
    assert first.time_warm_us.center == pytest.approx(25.0, rel=0.002)
    assert second.log2_speedup is not None
    assert second.log2_speedup.center == pytest.approx(math.log2(1.25), abs=0.003)
    assert result.time_us == pytest.approx(math.sqrt(50.0 * 160.0), rel=0.002)
    assert result.baseline_us == pytest.approx(math.sqrt(100.0 * 200.0), rel=0.002)
    assert result.time_warm_us == pytest.approx(math.sqrt(25.0 * 80.0), rel=0.002)
    assert result.noise_pct is not None
    assert 0.0 < result.noise_pct < 0.3
    assert result.notes == ()


def test_a_headline_outside_of_what_the_cases_say_is_explained() -> None:
    calm = sampled((1.0, 1.0), sigma=1e-6)
    loud = []
    for number, block in enumerate(calm.blocks):
        case = number // 2  # of whose baseline the first four blocks hold a hiccup: two blocks each
        hiccup = ("baseline", case)
        samples = [
            replace(one, cold_ns=16 * one.cold_ns) if (one.side, one.case_index) == hiccup else one
            for one in block.samples
        ]
        loud.append(replace(block, samples=tuple(samples)))
    result = measured(replace(calm, blocks=tuple(loud)))
    assert result.log2_speedup == pytest.approx(1.0, abs=0.01)
    assert [case.log2_speedup.center for case in result.cases if case.log2_speedup] == pytest.approx([0, 0], abs=0.01)
    assert any(note.startswith("S over all cases is 2 while the cases' own are 1 to 1: ") for note in result.notes)


def test_equal_sides_tie() -> None:
    result = measured(sampled((1.0, 1.0)))
    assert result.comparison == "tie"
    assert not result.censored


def test_without_a_baseline_there_are_times_only() -> None:
    blocks = tuple(
        Block("BB", tuple(Sample("candidate", 0, 5000.0, None, place) for place in (0, 1))) for _ in range(3)
    )
    result = summarise(BlockSamples(("N=1",), blocks), PLAN, None)
    assert (result.comparison, result.log2_speedup, result.confidence, result.worst_case) == ("none", None, None, None)
    assert result.time_us == pytest.approx(5.0)
    assert result.baseline_us is None
    assert result.time_warm_us is None
    assert result.cases[0].time_us is not None
    assert not result.cases[0].time_us.bounded, "three blocks bound no median at 95%"


def test_no_complete_block_at_all_is_unclear() -> None:
    samples = sampled((2.0,), blocks=4)
    gone = tuple(
        Block(each.order, tuple(Sample(s.side, 0, s.cold_ns, None, s.order, True) for s in each.samples))
        for each in samples.blocks
    )
    result = summarise(BlockSamples(samples.cases, gone), PLAN, None)
    assert (result.comparison, result.log2_speedup, result.blocks, result.time_us) == ("unclear", None, 0, None)
    assert result.discarded_share == 1.0


def test_blocks_that_give_out_leave_an_unbounded_interval() -> None:
    result = measured(sampled((2.0, 2.0), blocks=4))
    assert (result.comparison, result.log2_low, result.log2_high) == ("unclear", None, None)
    assert result.log2_speedup == pytest.approx(1.0, abs=0.01)
    assert "only 4 complete blocks" in result.notes[0]


def test_censored_results_say_so() -> None:
    result = measured(sampled((0.4, 0.3)))
    assert result.censored
    assert (result.comparison, result.blocks, result.confidence) == ("slower", 5, 0.9375)
    assert "rough" in result.notes[0]


def test_the_time_cap_is_noted() -> None:
    capped = plan_for("normal", sample_s=1e-3, cases=2, time_cap_s=1.0)
    samples = sampled((1.5, 1.5), blocks=7)
    ratios, groups = valid_blocks(samples)
    stop = after(ratios, capped, 1.0, groups)
    assert isinstance(stop, Stop)
    result = summarise(samples, capped, stop)
    assert (result.comparison, result.stop_reason) == ("faster", "time cap")
    assert "7 of up to 32 blocks" in result.notes[0]


def test_many_discarded_samples_make_it_unclear_but_keep_the_ratio() -> None:
    few = measured(sampled((2.0, 2.0), discard=0.3))
    assert (few.comparison, few.notes) == ("faster", ())
    many = measured(sampled((2.0, 2.0), discard=0.9))
    assert many.comparison == "unclear"
    assert many.log2_speedup == pytest.approx(1.0, abs=0.01)
    assert "inconclusive" in many.notes[0]


@pytest.mark.parametrize(
    ("spread_ns", "flags"), [(None, (False, False)), (4_900, (False, False)), (5_100, (True, False))]
)
def test_a_time_near_the_clocks_spread_is_host_limited(spread_ns: float | None, flags: tuple[bool, bool]) -> None:
    result = measured(sampled((2.0, 1.0)), clock_spread_ns=spread_ns)
    assert tuple(case.host_limited for case in result.cases) == flags
    assert result.host_limited == any(flags)


def test_a_noisy_machine_is_named() -> None:
    result = measured(sampled((1.0, 1.0), sigma=0.3))
    assert any("too noisy to see 1%" in note for note in result.notes)
