"""Is what a call returned right? The gate of `bench.correctness` around a torch reference, in the oracle."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...store.models import Dtype, Mismatch, Tensor
from ..correctness.compare import ExactExpectation, FloatExpectation
from ..correctness.norms import HEADROOM, Norms, Scale, limits, measure_norms
from ..tasks.dtypes import unit_roundoff
from .problems import TORCH_NAMES, array_module, array_of, converted
from .trees import flatten

OURS: dict[str, Dtype] = {theirs: ours for ours, theirs in TORCH_NAMES.items()}  # type: ignore[misc]
LOWER_BITS = {"float64": 24, "float32": 11, "bfloat16": 4, "float16": 4}
"""Significand bits of the next lower precision, by the widest dtype of the inputs: f32, TF32, FP8 E4M3."""
_TILE = 256
_ON_HOST = 1 << 20
"""Outputs of up to so many elements are judged by numpy: a GPU's array kernels would first have to be compiled."""

NULLS = ("zeros", "ones", "input copy", "constant mean", "previous output", "last tile missing")
"""Outputs that cost nothing. Where one of them passes, the problem cannot tell right from wrong."""


@dataclass(frozen=True)
class Reference:
    """One evaluation of the reference: its tree of outputs and their tensors."""

    tree: Any
    tensors: tuple[Any, ...]

    @classmethod
    def of(cls, outputs: Any) -> Reference:
        """Flatten what a reference returned. Raises TypeError for what cannot be compared."""
        tensors: list[Any] = []
        tree = flatten(outputs, tensors)
        return cls(tree, tuple(tensors))


@dataclass(frozen=True)
class Gate:
    """What the tensors of one content must be, in order."""

    expected: tuple[FloatExpectation | ExactExpectation, ...]

    def check(self, tensors: Sequence[Any]) -> Mismatch | None:
        """The first wrong element, or None. tensors: of the right number, shapes and dtypes."""
        for expected, array, xp in self._beside(tensors):
            mismatch = expected.check(array, xp)
            if mismatch is not None:
                return mismatch
        return None

    def accepts(self, tensors: Sequence[Any]) -> bool:
        """Whether `check` would find nothing, without looking for words."""
        return all(expected.accepts(array, xp) for expected, array, xp in self._beside(tensors))

    def _beside(self, tensors: Sequence[Any]) -> Iterator[tuple[FloatExpectation | ExactExpectation, Any, Any]]:
        for expected, tensor in zip(self.expected, tensors, strict=True):
            if math.prod(expected.shape) != 0:
                given = _where_judged(tensor)
                yield expected, array_of(given, array_module(given)), array_module(given)


def gate(case: str, golden: Reference | None, declared: Reference, lower: Reference | None, *, terms: float) -> Gate:
    """The gate for one content of inputs.

    golden: the reference in float64, or None where it cannot run so: then the declared evaluation stands in for it, and
    the limits are what rounding explains. lower: with operands one precision lower. terms: of the longest sum.
    """
    found: list[FloatExpectation | ExactExpectation] = []
    for number, tensor in enumerate(map(_where_judged, declared.tensors)):
        name = "output" if len(declared.tensors) == 1 else f"output {number}"
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in LOWER_BITS:
            array = array_of(tensor, array_module(tensor))
            ours = OURS.get(dtype) or _raw_dtype(array)
            found.append(ExactExpectation(case, Tensor(name=name, role="out", dtype=ours, shape=()), array))
            continue
        described = Tensor(name=name, role="out", dtype=OURS[dtype], shape=())
        if tensor.numel() == 0:
            found.append(ExactExpectation(case, described, array_of(tensor, array_module(tensor))))
            continue
        xp = array_module(tensor)
        truth = _wide(tensor if golden is None else golden.tensors[number])
        scale = Scale.of(truth, None, xp)
        honest = Norms(0.0, 0.0, 0.0)
        if golden is not None:
            honest = measure_norms(scale, _wide(tensor).reshape(-1), xp)
        wrong = Norms(1.0, 1.0, 1.0)
        if lower is not None:
            wrong = measure_norms(scale, _wide(lower.tensors[number]).reshape(-1), xp)
        accumulate: Dtype = "f64" if dtype == "float64" else "f32"
        limit = limits(
            honest,
            wrong,
            rounding=unit_roundoff(OURS[dtype]) + unit_roundoff(accumulate) * math.sqrt(max(terms, 1.0)),
            lower_rounding=2.0 ** -LOWER_BITS[dtype],
            elements=truth.size,
        )
        found.append(
            FloatExpectation(case, described, tuple(truth.shape), truth.reshape(-1), scale, honest, wrong, limit)
        )
    return Gate(tuple(found))


def around(learned: Gate, case: str, declared: Reference) -> Gate:
    """The gate for another content of the same case: around one evaluation at the declared precision, with the limits
    that were learned, wider by what the reference itself was off there."""
    found: list[FloatExpectation | ExactExpectation] = []
    for known, tensor in zip(learned.expected, map(_where_judged, declared.tensors), strict=True):
        if isinstance(known, ExactExpectation):
            found.append(replace(known, case=case, golden=array_of(tensor, array_module(tensor))))
            continue
        truth = _wide(tensor)
        wider = Norms(*(limit + HEADROOM * own for limit, own in zip(known.limits, known.declared, strict=True)))
        scale = Scale.of(truth, None, array_module(tensor))
        found.append(replace(known, case=case, golden=truth.reshape(-1), scale=scale, limits=wider))
    return Gate(tuple(found))


def null_outputs(inputs: Any, right: Reference, previous: Reference) -> dict[str, list[Any]]:
    """The null kernels' tensors by null. right, previous: the reference for these inputs and for others."""
    import torch

    given: list[Any] = []
    flatten(inputs, given)
    floats = [tensor for tensor in given if tensor.numel()] or [torch.zeros(1)]
    nulls: dict[str, list[Any]] = {name: [] for name in NULLS}
    for now, before in zip(right.tensors, previous.tensors, strict=True):
        nulls["zeros"].append(torch.zeros_like(now))
        nulls["ones"].append(torch.ones_like(now, dtype=torch.uint8).to(now.dtype))
        source = next((tensor for tensor in floats if tensor.dtype == now.dtype), floats[0]).reshape(-1)
        repeats = -(-now.numel() // source.numel()) if source.numel() else 1
        copied = source.repeat(max(repeats, 1))[: now.numel()].reshape(now.shape).to(now.device)
        nulls["input copy"].append(copied.to(now.dtype))
        mean = before.to(torch.float64).nan_to_num(0.0, 0.0, 0.0).mean() if not before.is_complex() else before.mean()
        nulls["constant mean"].append(torch.full_like(now, mean.item() if before.numel() else 0))
        nulls["previous output"].append(before if before.shape == now.shape else torch.zeros_like(now))
        tile = now.clone(memory_format=torch.contiguous_format).reshape(-1)
        last = min(_TILE, -(-tile.numel() // 8))
        if tile.numel():
            tile[-last:] = nulls["previous output"][-1].reshape(-1)[-last:]
        nulls["last tile missing"].append(tile.reshape(now.shape))
    return nulls


def lower_inputs(inputs: Any) -> tuple[Any, int]:
    """The inputs one precision lower than their widest float, and its significand bits; 0 where there is no float."""
    given: list[Any] = []
    flatten(inputs, given)
    names = [str(tensor.dtype).removeprefix("torch.") for tensor in given if tensor.is_floating_point()]
    bits = max((LOWER_BITS[name] for name in names if name in LOWER_BITS), default=0)
    return (converted(inputs, False, bits), bits) if bits else (inputs, 0)


def _where_judged(tensor: Any) -> Any:
    """The tensor where it is compared: small ones on the host."""
    return tensor.cpu() if tensor.is_cuda and tensor.numel() <= _ON_HOST else tensor


def _wide(tensor: Any) -> Any:
    import torch

    tensor = _where_judged(tensor)
    return array_of(tensor.detach().to(torch.float64), array_module(tensor))


def _raw_dtype(array: Any) -> Dtype:
    names: dict[str, Dtype] = {"uint8": "u8", "float32": "f32", "float64": "f64"}
    return names[str(array.dtype)]
