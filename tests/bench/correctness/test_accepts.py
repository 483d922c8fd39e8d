"""Accepting without words is what checking with words comes to."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.correctness.compare import ExactExpectation, FloatExpectation
from kforecast.bench.correctness.norms import Norms, Scale
from kforecast.store.models import Tensor

LIMITS = Norms(0.1, 0.05, 0.04)


def around(golden: np.ndarray) -> FloatExpectation:
    tensor = Tensor(name="out", role="out", dtype="f32", shape=())
    scale = Scale.of(golden, None, np)
    zero = Norms(0.0, 0.0, 0.0)
    return FloatExpectation("a", tensor, golden.shape, golden.reshape(-1), scale, zero, zero, LIMITS)


@given(
    st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=40),
    st.lists(st.sampled_from([0.0, 0.03, 0.045, 0.09, 0.11, float("nan"), float("inf")]), min_size=40, max_size=40),
)
def test_floats(values: list[float], errors: list[float]) -> None:
    golden = np.array(values, np.float64)
    with np.errstate(invalid="ignore"):  # zero times infinity
        got = (golden * (1 + np.array(errors[: golden.size]))).astype(np.float32)
    expected = around(golden)
    assert expected.accepts(got, np) == (expected.check(got, np) is None)


@given(st.binary(min_size=1, max_size=8), st.binary(min_size=1, max_size=8))
def test_bits(right: bytes, given_bytes: bytes) -> None:
    tensor = Tensor(name="out", role="out", dtype="u8", shape=())
    expected = ExactExpectation("a", tensor, np.frombuffer(right, np.uint8))
    assert expected.accepts(np.frombuffer(given_bytes, np.uint8), np) == (right == given_bytes)


def test_a_missing_output_and_one_of_another_form_are_not_accepted() -> None:
    expected = around(np.ones((2, 3)))
    assert not expected.accepts(None, np)
    assert not expected.accepts(np.ones((3, 2), np.float32), np)
    assert expected.accepts(np.ones((2, 3), np.float32), np)
