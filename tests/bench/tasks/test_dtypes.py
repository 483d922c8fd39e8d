from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kforecast.bench.tasks.dtypes import (
    DTYPE_NAMES,
    bf16_bits,
    c_type,
    cuda_type,
    item_bytes,
    largest,
    numpy_dtype,
    round_significand,
    round_to,
    to_float,
    unit_roundoff,
)
from kforecast.store.errors import InputError

FLOATS32 = arrays(np.float32, st.integers(1, 40), elements=st.floats(width=32, allow_subnormal=True))
ORDINARY = arrays(
    np.float32, st.integers(1, 40), elements=st.floats(-100, 100, width=32).filter(lambda x: abs(x) > 0.02)
)


def test_sizes_and_names_of_types() -> None:
    assert {name: item_bytes(name) for name in ("f64", "f32", "bf16", "i8")} == {"f64": 8, "f32": 4, "bf16": 2, "i8": 1}
    assert (c_type("f32"), c_type("bf16"), c_type("i32")) == ("float", "uint16_t", "int")
    assert (cuda_type("f16"), cuda_type("bf16"), cuda_type("f32")) == ("__half", "__nv_bfloat16", "float")


def test_an_unknown_dtype_names_the_nearest() -> None:
    with pytest.raises(InputError, match="f32"):
        numpy_dtype("fp32")


@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16"])
def test_roundoff_and_range_are_the_types_own(name: str) -> None:
    one = np.ones(1)
    up = to_float(round_to(one * (1 + 1.01 * unit_roundoff(name)), name, np), name, np)
    down = to_float(round_to(one * (1 + 0.99 * unit_roundoff(name)), name, np), name, np)
    if name != "f64":
        assert up[0] > 1 and down[0] == 1
    assert np.isfinite(to_float(round_to(one * largest(name), name, np), name, np)).all()
    with np.errstate(over="ignore"):
        assert np.isinf(to_float(round_to(one * largest(name) * 2, name, np), name, np)).all()


@given(FLOATS32)
def test_bf16_by_bits_agrees_with_the_library(values: Any) -> None:
    ours, theirs = bf16_bits(values, np), round_to(values, "bf16", np)
    nan = np.isnan(values)
    assert theirs.dtype == ml_dtypes.bfloat16
    assert (ours[~nan] == theirs.view(np.uint16)[~nan]).all()
    assert np.isnan(to_float(ours, "bf16", np)[nan]).all()


@given(FLOATS32)
def test_bf16_bits_and_bf16_arrays_widen_alike(values: Any) -> None:
    rounded = round_to(values, "bf16", np)
    np.testing.assert_array_equal(to_float(rounded, "bf16", np), to_float(rounded.view(np.uint16), "bf16", np))


@given(FLOATS32, st.sampled_from([4, 8, 11]))
def test_rounding_a_significand_twice_changes_nothing_more(values: Any, bits: int) -> None:
    once = round_significand(values, bits, np)
    np.testing.assert_array_equal(round_significand(once, bits, np), once)
    special = ~np.isfinite(values)
    np.testing.assert_array_equal(once[special], values[special])


@pytest.mark.parametrize("bits, narrow", [(11, np.float16), (8, ml_dtypes.bfloat16), (4, ml_dtypes.float8_e4m3)])
@given(values=ORDINARY)
def test_rounding_a_significand_is_what_the_narrow_type_does(bits: int, narrow: Any, values: Any) -> None:
    np.testing.assert_array_equal(round_significand(values, bits, np), values.astype(narrow).astype(np.float32))


@given(arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e30, 1e30).filter(lambda x: abs(x) > 1e-30)))
def test_rounding_f64_to_24_bits_is_f32(values: Any) -> None:
    np.testing.assert_array_equal(round_significand(values, 24, np), values.astype(np.float32).astype(np.float64))


@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_small_whole_numbers_survive_every_dtype(name: str) -> None:
    values = np.arange(100).astype(numpy_dtype(name))
    np.testing.assert_array_equal(to_float(values, name, np), np.arange(100.0))
