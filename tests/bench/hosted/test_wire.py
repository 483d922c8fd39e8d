"""What a candidate says of its outputs is read strictly; forms of tensors tell density and overlap as torch does."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.hosted.wire import TensorForm, contiguous, form_of, leaves, returned_of, same_shape

SHAPES = st.lists(st.integers(1, 5), max_size=4).map(tuple)


def permuted(shape: tuple[int, ...], order: list[int]) -> TensorForm:
    strides = [0] * len(shape)
    step = 1
    for dimension in reversed(order):
        strides[dimension] = step
        step *= shape[dimension]
    return TensorForm("float32", shape, tuple(strides))


@given(SHAPES, st.randoms())
def test_permutations_of_a_contiguous_tensor_are_dense(shape: tuple[int, ...], random: Any) -> None:
    order = list(range(len(shape)))
    random.shuffle(order)
    form = permuted(shape, order)
    assert form.dense
    assert not form.overlaps_itself
    assert form.span_bytes == 4 * math.prod(shape)
    assert contiguous(form).strides == permuted(shape, list(range(len(shape)))).strides


@given(SHAPES, st.integers(2, 4))
def test_gaps_are_not_dense_and_expansion_overlaps(shape: tuple[int, ...], extent: int) -> None:
    form = permuted((*shape, extent), list(range(len(shape) + 1)))
    spread = TensorForm("float32", form.shape, tuple(3 * stride for stride in form.strides))
    assert not spread.dense
    assert not spread.overlaps_itself
    expanded = TensorForm("float32", form.shape, (*form.strides[:-1], 0))
    assert expanded.overlaps_itself


@given(st.lists(st.integers(0, 12), min_size=1, max_size=3), st.data())
def test_overlap_is_what_enumerating_elements_finds(strides: list[int], data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=len(strides), max_size=len(strides)))
    form = TensorForm("int8", tuple(shape), tuple(strides))
    places = [0]
    for extent, stride in zip(shape, strides, strict=True):
        places = [place + index * stride for place in places for index in range(extent)]
    if len(set(places)) < len(places):
        assert form.overlaps_itself
    if form.dense:
        assert sorted(places) == list(range(len(places)))


GOOD = {"dtype": "float32", "shape": [2, 3], "strides": [3, 1], "type": "Tensor", "device": "cpu", "address": 4096}


def test_a_good_answer_is_read() -> None:
    text = json.dumps({"tree": [{"tensor": 0}, {"value": 1.5}], "tensors": [GOOD]})
    returned = returned_of(text)
    assert returned.forms == (TensorForm("float32", (2, 3), (3, 1)),)
    assert list(leaves(returned.tree)) == [0]


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "pickle"}, {"shape": "2"}, {"shape": [2]}, {"shape": [2, -3]}, {"strides": [3, 2**60]},
        {"strides": [3, True]}, {"address": None}, {"shape": [1] * 40, "strides": [1] * 40}, {"dtype": ["float32"]},
    ],
)  # fmt: skip
def test_a_bad_answer_is_no_answer(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        returned_of(json.dumps({"tree": {"tensor": 0}, "tensors": [{**GOOD, **change}]}))


@given(st.text(max_size=60) | st.recursive(st.none() | st.integers(), st.lists, max_leaves=5).map(json.dumps))
def test_no_answer_raises_anything_else(text: str) -> None:
    with pytest.raises(ValueError):
        returned_of(text)


def test_trees_compare_by_nesting_not_by_values() -> None:
    tree = [{"tensor": 0}, {"dict": {"a": {"tensor": 1}, "b": {"value": 2}}}]
    assert same_shape(tree, [{"tensor": 0}, {"dict": {"a": {"tensor": 1}, "b": {"value": 3}}}])
    assert not same_shape(tree, [{"tensor": 0}, {"dict": {"a": {"tensor": 1}}}])
    assert not same_shape(tree, [{"tensor": 0}])
    assert not same_shape({"value": 1}, {"tensor": 0})
    assert form_of(GOOD).as_data() == {"dtype": "float32", "shape": [2, 3], "strides": [3, 1]}
