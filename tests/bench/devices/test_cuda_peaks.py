from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.devices.cuda.peaks import PEAKS, best_rates, peak_rates


@pytest.mark.parametrize(
    ("arch", "sm_count", "boost_mhz", "unit", "published_tflops"),
    [
        ("sm_75", 40, 1590, "f16", 65.0),  # T4
        ("sm_80", 108, 1410, "bf16", 312.0),  # A100
        ("sm_80", 108, 1410, "tf32", 156.0),
        ("sm_80", 108, 1410, "f32", 19.5),
        ("sm_80", 108, 1410, "f64", 19.5),
        ("sm_86", 84, 1800, "f16", 154.8),  # RTX A6000
        ("sm_86", 82, 1695, "f32", 35.6),  # GeForce RTX 3090
        ("sm_89", 128, 2520, "f32", 82.6),  # GeForce RTX 4090
        ("sm_89", 142, 2520, "tf32", 183.0),  # L40S
        ("sm_90", 132, 1830, "bf16", 989.4),  # H100 SXM
        ("sm_90", 132, 1830, "tf32", 494.7),
        ("sm_90", 132, 1980, "f32", 66.9),
        ("sm_90", 132, 1980, "f64", 66.9),
        ("sm_120", 170, 2407, "f32", 104.8),  # GeForce RTX 5090
    ],
)
def test_the_table_gives_the_published_rates(
    arch: str, sm_count: int, boost_mhz: float, unit: str, published_tflops: float
) -> None:
    assert peak_rates(arch, sm_count, boost_mhz)[unit] / 1e12 == pytest.approx(published_tflops, rel=0.02)


def test_every_row_names_its_source_and_knows_its_own_units_only() -> None:
    for peaks in PEAKS.values():
        assert "NVIDIA" in peaks.source
        assert set(peaks.per_sm_clock) <= {"f64", "f32", "tf32", "bf16", "f16"}
        assert peaks["f16"] > peaks["f32"] >= peaks["f64"]


def test_an_architecture_that_the_table_lacks_bounds_nothing() -> None:
    assert peak_rates("sm_200", 100, 2000) == {}
    assert best_rates("sm_200", 100, 2000, {"bf16": 1e15}) == {}


def test_a_measured_rate_below_the_peak_changes_nothing_and_one_above_it_counts() -> None:
    peak = peak_rates("sm_90", 132, 1980)
    assert best_rates("sm_90", 132, 1980, {"bf16": 0.6 * peak["bf16"]}) == peak
    # More than mma.sync's share of the peak: the clock was higher than the driver says.
    faster = best_rates("sm_90", 132, 1980, {"bf16": 0.7 * peak["bf16"], "f32": 1.1 * peak["f32"]})
    assert faster["bf16"] == pytest.approx(0.7 / 0.62 * peak["bf16"])
    assert faster["f32"] == pytest.approx(1.1 * peak["f32"])
    assert faster["tf32"] == peak["tf32"]


@given(st.sampled_from(sorted(PEAKS)), st.integers(1, 200), st.floats(100, 4000), st.floats(0, 1e16))
def test_no_rate_is_below_the_peak_or_what_was_measured(arch: str, sms: int, mhz: float, measured: float) -> None:
    units = PEAKS[arch].per_sm_clock
    best = best_rates(arch, sms, mhz, dict.fromkeys(units, measured))
    assert all(best[unit] >= max(measured, peak_rates(arch, sms, mhz)[unit]) for unit in units)
