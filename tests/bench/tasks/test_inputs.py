from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforecast.bench.tasks.builtin import builtin_names, builtin_task
from kforecast.bench.tasks.dtypes import numpy_dtype
from kforecast.bench.tasks.inputs import FILL_NAMES, check_fill, make_inputs
from kforecast.bench.tasks.shapes import input_tensors, shape_of
from kforecast.store.errors import InputError
from kforecast.store.models import Case

TASK = builtin_task("bias_gelu")
LABELS = builtin_task("cross_entropy")


def fill(name: str, rows: int = 40, columns: int = 51, seed: int = 1) -> Any:
    return make_inputs(TASK, Case(sizes={"R": rows, "C": columns}, fill={"x": name}), seed)["x"]


@given(st.sampled_from(builtin_names()), st.integers(0, 2**63), st.data())
@settings(max_examples=40, deadline=None)
def test_equal_seeds_make_equal_inputs_of_the_declared_form(name: str, seed: int, data: st.DataObject) -> None:
    task = builtin_task(name)
    case = data.draw(st.sampled_from(task.checked))
    first, second = make_inputs(task, case, seed), make_inputs(task, case, seed)
    assert list(first) == [tensor.name for tensor in input_tensors(task)]
    for tensor in input_tensors(task):
        array = first[tensor.name]
        assert array.shape == shape_of(tensor, case)
        assert array.dtype == numpy_dtype(tensor.dtype)
        assert array.flags.c_contiguous
        assert array.tobytes() == second[tensor.name].tobytes()


@given(st.integers(0, 2**63 - 1))
@settings(max_examples=30, deadline=None)
def test_other_seeds_and_other_tensors_make_other_inputs(seed: int) -> None:
    case = Case(sizes={"N": 50})
    one, two = (
        make_inputs(builtin_task("vector_add"), case, seed),
        make_inputs(builtin_task("vector_add"), case, seed + 1),
    )
    assert not (one["a"] == two["a"]).any() and not (one["a"] == one["b"]).any()


@given(st.integers(1, 1000), st.integers(0, 2**63))
@settings(max_examples=40, deadline=None)
def test_an_index_stays_below_its_bound(bound: int, seed: int) -> None:
    labels = make_inputs(LABELS, Case(sizes={"R": 300, "C": bound}), seed)["labels"]
    assert labels.min() >= 0 and labels.max() < bound


def test_normal_and_its_scalings() -> None:
    plain = fill("normal", 200, 200)
    assert abs(plain.mean()) < 0.03 and abs(plain.std() - 1) < 0.03
    for name, factor in (("large", 1e3), ("huge", 1e15), ("tiny", 1e-20)):
        np.testing.assert_allclose(fill(name, 200, 200), plain * np.float32(factor), rtol=1e-6)
    np.testing.assert_allclose(fill("offset", 200, 200), plain + 1000, atol=1e-4)


def test_ranges() -> None:
    uniform = fill("uniform")
    assert uniform.min() >= 0 and uniform.max() < 1 and uniform.std() > 0.2
    assert fill("positive").min() > 0 and fill("negative").max() < 0
    assert set(np.unique(fill("ints"))) == set(range(-4, 5))
    ties = fill("ties")
    assert ties.min() >= 0 and ties.max() < 64 and (ties == ties.astype(int)).all()


def test_shaped_fills() -> None:
    assert len(np.unique(fill("constant"))) == 1
    rows = fill("constant_rows")
    assert (rows == rows[:, :1]).all() and len(np.unique(rows)) == 40
    ordered = fill("sorted")
    assert (np.diff(ordered, axis=1) >= 0).all()
    hot = fill("one_hot")
    assert (hot.sum(axis=1) == 1).all() and (hot.max(axis=1) == 1).all() and len(set(hot.argmax(axis=1))) > 5
    cancelling = fill("cancellation")
    np.testing.assert_array_equal(cancelling[:, :25], -cancelling[:, 25:50])
    assert not fill("zeros").any() and (fill("ones") == 1).all()


@pytest.mark.parametrize("name, value", [("nan_one", np.nan), ("inf_one", np.inf), ("neg_inf_one", -np.inf)])
def test_one_special_element_at_a_place_that_moves(name: str, value: float) -> None:
    places = set()
    for seed in range(8):
        (at,) = np.flatnonzero(~np.isfinite(fill(name, seed=seed)))
        places.add(at)
        np.testing.assert_equal(float(fill(name, seed=seed).reshape(-1)[at]), value)
    assert len(places) > 4
    assert (fill("neg_inf") == -np.inf).all()


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "i32", "u8", "i64"])
@pytest.mark.parametrize("name", [*FILL_NAMES[:-1], "index:N"])
def test_every_fill_makes_every_dtype_it_suits(dtype: Any, name: str) -> None:
    tensors = tuple(tensor.model_copy(update={"dtype": dtype}) for tensor in builtin_task("vector_add").tensors)
    task = builtin_task("vector_add").model_copy(update={"tensors": tensors})
    case = Case(sizes={"N": 33}, fill={"a": name, "b": "zeros"})
    try:
        check_fill(name, tensors[0], case)
    except InputError:
        assert not dtype.startswith(("f", "b"))
        with pytest.raises(InputError, match="for floats"):
            make_inputs(task, case, 0)
        return
    array = make_inputs(task, case, 0)["a"]
    assert array.dtype == numpy_dtype(dtype)
    if name not in ("nan_one", "inf_one", "neg_inf_one", "neg_inf"):
        assert np.isfinite(array.astype(np.float64)).all()


def test_an_unknown_fill_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"Did you mean .*one_hot"):
        fill("onehot")
