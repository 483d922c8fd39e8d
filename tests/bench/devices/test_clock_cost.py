"""The cost of a pair of events: found from empty kernels, taken off readings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.devices.cuda.clock import ClockCost, clock_cost

us = st.floats(0.1, 20.0)


def readings(stream: float, graph: float, empty: float) -> dict[int, list[float]]:
    """What events would read of empty kernels, a call, where a launch in the stream costs `stream`, a graph `graph`."""
    return {1: [stream + empty] * 3, 8: [graph / 8 + empty] * 3, 64: [graph / 64 + empty] * 3}


@given(us, us, us)
def test_costs_are_found_again(stream: float, graph: float, empty: float) -> None:
    cost = clock_cost(readings(stream, graph, empty))
    assert cost.empty_us == pytest.approx(empty, rel=1e-6)
    assert cost.stream_us == pytest.approx(stream, rel=1e-6, abs=1e-6)
    assert cost.graph_us == pytest.approx(graph, rel=1e-6, abs=1e-6)


@given(us, us, us, st.floats(1.0, 1e6), st.sampled_from([1, 2, 8, 64]))
def test_a_kernels_time_is_what_is_left(stream: float, graph: float, empty: float, time: float, calls: int) -> None:
    cost = clock_cost(readings(stream, graph, empty))
    read = time + (stream if calls == 1 else graph / calls)
    assert cost.without(read, calls) == pytest.approx(max(time, empty), rel=1e-6)


def test_no_reading_becomes_less_than_an_empty_kernel() -> None:
    assert ClockCost(stream_us=2.3, graph_us=4.0, empty_us=0.9).without(2.0, 1) == 0.9


def test_noise_makes_no_negative_cost() -> None:
    cost = clock_cost({1: [1.0], 8: [2.0], 64: [1.0]})
    assert min(cost.stream_us, cost.graph_us, cost.empty_us) >= 0
