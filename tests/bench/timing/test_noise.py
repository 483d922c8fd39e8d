"""A/A noise from known noise, and what the sentence about a noisy machine says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.timing.intervals import interval
from kforecast.bench.timing.noise import (
    Noise,
    autocorrelation,
    correlated,
    noise_of,
    resolution_percent,
    too_noisy_for,
)
from kforecast.bench.timing.plan import block_orders
from kforecast.bench.timing.samples import SIDE_OF_LETTER, Block, BlockSamples, Sample, valid_blocks


def sampled(blocks: int, sigma: float, seed: int, drift: float = 0.0, wild: int = 0) -> BlockSamples:
    """One case, log-normal visits of the given relative noise; `drift` a visit; `wild` blocks hold an outlier."""
    rng = np.random.default_rng(seed)
    made = []
    for index, order in enumerate(block_orders(blocks, rng)):
        times = 1000 * np.exp(rng.normal(0, sigma, 4) + drift * np.arange(4))
        if index < wild:
            times[order.index("A")] *= 50
        visited = enumerate(zip(order, times, strict=True))
        samples = [Sample(SIDE_OF_LETTER[letter], 0, float(time), None, place) for place, (letter, time) in visited]
        made.append(Block(order, tuple(samples)))
    return BlockSamples(("only",), tuple(made))


def test_noise_is_the_spread_of_two_visits() -> None:
    found = noise_of(sampled(2000, 0.01, seed=1))
    assert found.percent == pytest.approx(100 * 0.01 * 2**0.5, rel=0.1)
    assert found.drift_percent == pytest.approx(0.0, abs=0.1)
    assert found.blocks == 2000


def test_outliers_do_not_make_it() -> None:
    clean, wild = noise_of(sampled(40, 0.01, seed=2)), noise_of(sampled(40, 0.01, seed=2, wild=8))
    assert clean.percent is not None
    assert wild.percent is not None
    assert wild.percent < 2 * clean.percent


def test_drift_shows_with_its_sign() -> None:
    found = noise_of(sampled(200, 0.001, seed=3, drift=0.01))
    assert found.drift_percent is not None
    assert -3.1 < found.drift_percent < -0.9, "the first visit is 1 or 3 visits younger, hence faster"


def test_few_blocks_say_nothing() -> None:
    assert noise_of(sampled(2, 0.01, seed=1)) == Noise(None, None, 2)
    assert resolution_percent(Noise(None, None, 2), 8) is None
    assert too_noisy_for(1.0, Noise(None, None, 2), 8) is None


def test_a_candidate_alone_has_noise_too() -> None:
    rng = np.random.default_rng(1)
    blocks = tuple(
        Block("BB", tuple(Sample("candidate", 0, float(time), None, place) for place, time in enumerate(pair)))
        for pair in np.exp(rng.normal(0, 0.01, (500, 2)))
    )
    assert noise_of(BlockSamples(("only",), blocks)).percent == pytest.approx(1.41, rel=0.2)


def test_resolution_foretells_the_half_width() -> None:
    samples = sampled(16 * 60, 0.01, seed=5)
    ratios, _ = valid_blocks(samples)
    widths = [interval(ratios[start : start + 16], 0.05).half_width for start in range(0, len(ratios), 16)]
    foretold = resolution_percent(noise_of(samples), 16)
    assert foretold == pytest.approx(100 * (2 ** float(np.median(widths)) - 1), rel=0.25)


@given(st.floats(0.01, 900.0), st.integers(1, 64))
def test_the_sentence_comes_exactly_when_it_is_too_noisy(percent: float, blocks: int) -> None:
    noise = Noise(percent, 0.0, blocks)
    resolved = resolution_percent(noise, blocks)
    assert resolved is not None
    assert too_noisy_for(resolved * 1.01, noise, blocks) is None
    sentence = too_noisy_for(resolved * 0.99, noise, blocks)
    assert sentence is not None
    digits = f"{percent:.0f}%" if percent >= 10 else f"{percent:.2g}%"
    assert f"differ by {digits}," in sentence
    assert "e+" not in sentence


def test_autocorrelation_tells_waves_from_noise() -> None:
    waves = [float(np.sin(index / 5)) for index in range(64)]
    assert autocorrelation(waves) == pytest.approx(1.0, abs=0.15)
    assert autocorrelation([(-1.0) ** index for index in range(64)]) == pytest.approx(-1.0, abs=0.05)
    assert autocorrelation([1.0] * 20) is None
    assert autocorrelation([1.0, 2.0]) is None
    assert correlated(Noise(1.0, 0.0, 64, autocorrelation(waves)), 64)
    rng = np.random.default_rng(0)
    alarms = sum(correlated(Noise(1.0, 0.0, 32, autocorrelation(rng.normal(size=32).tolist())), 32) for _ in range(500))
    assert alarms <= 20, "about 1% are expected"
