"""The gate around a torch reference: honest reorderings pass, the next lower precision and null kernels do not."""

from __future__ import annotations

from typing import Any

import pytest

from kforecast.bench.hosted.judge import NULLS, Gate, Reference, around, gate, lower_inputs, null_outputs
from kforecast.bench.hosted.problems import array_of, rounded
from kforecast.bench.hosted.trees import dense_clone, flatten, form, placed, unflatten, view_at

torch = pytest.importorskip("torch")


def product(x: Any, w: Any) -> Any:
    return x @ w


def inputs_of(seed: int, dtype: Any) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(64, 300, generator=generator, dtype=torch.float64).to(dtype),
        torch.randn(300, 48, generator=generator, dtype=torch.float64).to(dtype),
    )


def gate_of(seed: int, dtype: Any) -> Gate:
    x, w = inputs_of(seed, dtype)
    lower, bits = lower_inputs([x, w])
    assert bits == {torch.float64: 24, torch.float32: 11}.get(dtype, 4)
    golden, declared = Reference.of(product(x.double(), w.double())), Reference.of(product(x, w))
    return gate("case", golden, declared, Reference.of(product(*lower)), terms=300.0)


@pytest.mark.parametrize("name", ["float64", "float32", "bfloat16", "float16"])
def test_another_order_passes_and_the_next_lower_precision_does_not(name: str) -> None:
    dtype = getattr(torch, name)
    found, (x, w) = gate_of(1, dtype), inputs_of(1, dtype)
    order = torch.randperm(300)
    assert found.check([(x[:, order].float() @ w[order].float()).to(dtype) if name != "float64" else x @ w]) is None
    lower, _ = lower_inputs([x, w])
    assert found.check([product(*lower)]) is not None


def test_every_null_kernel_fails_on_a_product() -> None:
    x, w = inputs_of(1, torch.float32)
    right, previous = Reference.of(product(x, w)), Reference.of(product(*inputs_of(2, torch.float32)))
    nulls = null_outputs([x, w], right, previous)
    assert set(nulls) == set(NULLS)
    found = gate_of(1, torch.float32)
    assert [name for name, tensors in nulls.items() if found.check(tensors) is None] == []


def test_around_another_content_the_limits_hold_too() -> None:
    learned = gate_of(1, torch.float32)
    x, w = inputs_of(3, torch.float32)
    found = around(learned, "other", Reference.of(product(x, w)))
    assert found.check([(w.t() @ x.t()).t()]) is None
    assert found.check([product(rounded(x, 11), rounded(w, 11))]) is not None
    mismatch = found.check([product(*inputs_of(1, torch.float32))])
    assert mismatch is not None
    assert mismatch.case == "other"


def test_without_golden_values_rounding_alone_is_the_limit() -> None:
    x, w = inputs_of(1, torch.float32)
    found = gate("case", None, Reference.of(product(x, w)), None, terms=300.0)
    assert found.check([(w.t() @ x.t()).t()]) is None
    assert found.check([product(x, w) * 1.01]) is not None


def test_whole_numbers_booleans_and_complex_numbers_are_compared_exactly() -> None:
    values = [torch.arange(6), torch.tensor([True, False]), torch.tensor([1 + 2j, 3 - 1j]), torch.empty(0, 3)]
    found = gate("case", None, Reference.of(values), None, terms=1.0)
    assert found.check(values) is None
    changed = [values[0], torch.tensor([True, True]), *values[2:]]
    mismatch = found.check(changed)
    assert mismatch is not None
    assert mismatch.tensor == "output 1"


def test_non_finite_values_must_be_where_the_reference_has_them() -> None:
    right = torch.tensor([1.0, float("inf"), float("nan"), -float("inf")] * 8)
    found = gate("case", Reference.of(right.double()), Reference.of(right), None, terms=1.0)
    assert found.check([right.clone()]) is None
    for place, value in ((0, float("nan")), (1, 1e30), (2, 0.0), (3, float("inf"))):
        wrong = right.clone()
        wrong[place] = value
        assert found.check([wrong]) is not None


def test_trees_keep_values_and_strides() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    value = [x.t(), {"scale": 2.5, "mask": None, "parts": [x[:, ::2], "name"]}]
    tensors: list[Any] = []
    tree = flatten(value, tensors)
    back = unflatten(tree, tensors)
    assert back[1]["scale"] == 2.5
    assert back[1]["parts"][1] == "name"
    assert form(dense_clone(tensors[0])).strides == (1, 4)
    assert form(dense_clone(tensors[1])).strides == (2, 1)
    forms = [form(dense_clone(tensor)) for tensor in tensors]
    offsets, size = placed(forms)
    memory = bytearray(size)
    for tensor, offset, one in zip(tensors, offsets, forms, strict=True):
        view_at(memory, offset, one).copy_(tensor)
    assert torch.equal(view_at(memory, offsets[0], forms[0]), x.t())
    assert torch.equal(view_at(memory, offsets[1], forms[1]), x[:, ::2])
    for bad in ({1: x}, {"x": object()}, x.to_sparse()):
        with pytest.raises(TypeError):
            kept: list[Any] = []
            flatten(bad, kept)
            form(kept[0])


def test_arrays_carry_every_dtype() -> None:
    assert array_of(torch.ones(2, dtype=torch.bfloat16)).tolist() == [0x3F80, 0x3F80]
    assert array_of(torch.tensor([True])).dtype == "uint8"
    assert array_of(torch.ones(3, dtype=torch.complex64)).shape == (3, 2)
    assert array_of(torch.ones(2, dtype=torch.float8_e4m3fn)).dtype == "uint8"
