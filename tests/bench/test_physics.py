from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.physics import against_floor, times_text
from kforecast.store.models import CaseResult


def case(
    time_us: float | None, floor_us: float | None, baseline_us: float | None = None, name: str = "N=1"
) -> CaseResult:
    return CaseResult(case=name, time_us=time_us, floor_us=floor_us, baseline_us=baseline_us)


def test_nothing_is_doubted_above_the_floor_or_without_one() -> None:
    assert against_floor([]) is None
    assert against_floor([case(100.0, 95.0), case(100.0, 105.0)]) is None
    assert against_floor([case(0.001, None), case(None, 5.0)]) is None


def test_a_little_below_is_doubted_and_far_below_is_impossible() -> None:
    doubted = against_floor([case(100.0, 80.0), case(8.0, 10.0, name="R=4 C=8")])
    assert doubted is not None and not doubted.impossible
    assert "R=4 C=8" in doubted.reason and "8 us" in doubted.reason and "10 us" in doubted.reason
    impossible = against_floor([case(8.0, 10.0), case(4.9, 10.0)])
    assert impossible is not None and impossible.impossible


def test_a_baseline_below_the_floor_spoils_the_ratio_but_not_the_candidate() -> None:
    doubt = against_floor([case(20.0, 10.0, baseline_us=3.0)])
    assert doubt is not None and not doubt.impossible and "baseline" in doubt.reason


@given(st.lists(st.tuples(st.floats(0.1, 1e6), st.floats(0.1, 1e6)), min_size=1, max_size=5))
def test_the_worst_case_decides(pairs: list[tuple[float, float]]) -> None:
    worst = min(time / floor for time, floor in pairs)
    doubt = against_floor([case(time, floor) for time, floor in pairs])
    assert (doubt is None) == (worst >= 0.9)
    assert doubt is None or doubt.impossible == (worst < 0.5)


def test_what_an_impossible_measurement_read_stays_readable() -> None:
    text = times_text([case(1.25, 10.0, 20.0, "N=4"), case(None, 1.0), case(2.0, None, name="N=8")])
    assert text.splitlines() == ["N=4: 1.250 us, floor 10.000 us, baseline 20.000 us", "N=8: 2.000 us"]
