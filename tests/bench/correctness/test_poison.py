from __future__ import annotations

import numpy as np
import pytest

from kforecast.bench.correctness.poison import fill_poison, poison_bits, poisoned
from kforecast.bench.tasks.dtypes import DTYPE_NAMES, is_float, item_bytes, numpy_dtype, to_float


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_poison_fills_every_element_and_is_recognised(dtype: str) -> None:
    array = np.zeros((3, 5), numpy_dtype(dtype))
    assert not poisoned(array, dtype).any()
    fill_poison(array, dtype)
    assert poisoned(array, dtype).all()
    assert poison_bits(dtype) < 1 << (8 * item_bytes(dtype))
    if is_float(dtype):
        assert np.isnan(to_float(array, dtype, np)).all()
    array[1, 2] = 1
    assert poisoned(array, dtype).sum() == 14


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16"])
def test_arithmetic_makes_no_poison(dtype: str) -> None:
    with np.errstate(all="ignore"):
        nan = np.array([np.inf], numpy_dtype(dtype)) - np.array([np.inf], numpy_dtype(dtype))
    assert np.isnan(nan).all() and not poisoned(nan, dtype).any()
