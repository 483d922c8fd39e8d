"""Inputs of a case: one generator (a *fill*) a tensor, seeded, on numpy or cupy."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable
from typing import Any

from ...store.errors import InputError
from ...store.models import Case, Task, Tensor
from ..header.expression import Expression, evaluate
from .dtypes import Array, ArrayModule, carrier_dtype, is_float, is_numpy, item_bytes, round_to
from .nearest import nearest_text
from .shapes import input_tensors, shape_of

_Shape = tuple[int, ...]


class _Source:
    """Random numbers of one tensor. float32 throughout, except where the tensor itself is f64."""

    def __init__(self, xp: ArrayModule, seed: int, dtype: str) -> None:
        self.xp = xp
        self.wide: Any = xp.float64 if dtype == "f64" else xp.float32
        self.narrow = dtype == "f16"
        random_of = xp.random
        self.generator = random_of.Generator(random_of.SFC64(seed)) if is_numpy(xp) else random_of.default_rng(seed)
        self.place = random.Random(seed)

    def normal(self, shape: _Shape) -> Array:
        return self.generator.standard_normal(shape, dtype=self.wide)

    def uniform(self, shape: _Shape) -> Array:
        return self.generator.random(shape, dtype=self.wide)

    def integers(self, low: int, high: int, shape: _Shape) -> Array:
        """Whole numbers in [low, high) as int64 (int32 where they fit: half the memory)."""
        small = low >= -(2**31) and high <= 2**31
        return self.generator.integers(low, high, size=shape, dtype=self.xp.int32 if small else self.xp.int64)

    def one_changed(self, shape: _Shape, value: float) -> Array:
        values = self.normal(shape)
        values.reshape(-1)[self.place.randrange(math.prod(shape))] = value
        return values


def _positive(source: _Source, shape: _Shape) -> Array:
    values = source.normal(shape)
    source.xp.abs(values, out=values)
    values += source.wide(0.01)
    return values


def _constant_rows(source: _Source, shape: _Shape) -> Array:
    values = source.xp.empty(shape, source.wide)
    values[...] = source.normal((*shape[:-1], 1))
    return values


def _cancellation(source: _Source, shape: _Shape) -> Array:
    values = source.normal(shape)
    half = shape[-1] // 2
    values[..., half : 2 * half] = -values[..., :half]
    return values


def _one_hot(source: _Source, shape: _Shape) -> Array:
    rows = math.prod(shape[:-1])
    values = source.xp.zeros((rows, shape[-1]), source.wide)
    values[source.xp.arange(rows), source.integers(0, shape[-1], (rows,))] = 1
    return values.reshape(shape)


def _scaled(factor: float, narrow_factor: float) -> Callable[[_Source, _Shape], Array]:
    return lambda source, shape: source.normal(shape) * source.wide(narrow_factor if source.narrow else factor)


_FLOAT_FILLS: dict[str, Callable[[_Source, _Shape], Array]] = {
    "normal": lambda source, shape: source.normal(shape),
    "uniform": lambda source, shape: source.uniform(shape),
    "positive": _positive,
    "negative": lambda source, shape: -_positive(source, shape),
    "large": _scaled(1e3, 1e3),
    "huge": _scaled(1e15, 1e2),  # squares still fit; f16 ends at 65504
    "tiny": _scaled(1e-20, 1e-3),
    "offset": lambda source, shape: source.normal(shape) + source.wide(1000),
    "cancellation": _cancellation,
    "constant": lambda source, shape: source.xp.full(shape, source.place.gauss(0, 1), source.wide),
    "constant_rows": _constant_rows,
    "sorted": lambda source, shape: source.xp.sort(source.normal(shape), axis=-1),
    "one_hot": _one_hot,
    "nan_one": lambda source, shape: source.one_changed(shape, math.nan),
    "inf_one": lambda source, shape: source.one_changed(shape, math.inf),
    "neg_inf_one": lambda source, shape: source.one_changed(shape, -math.inf),
    "neg_inf": lambda source, shape: source.xp.full(shape, -math.inf, source.wide),
}
_ANY_FILLS: dict[str, Callable[[_Source, _Shape], Array]] = {
    "zeros": lambda source, shape: source.xp.zeros(shape, source.wide),
    "ones": lambda source, shape: source.xp.ones(shape, source.wide),
    "ints": lambda source, shape: source.integers(-4, 5, shape),
    "ties": lambda source, shape: source.integers(0, 64, shape),
}
FILL_NAMES: tuple[str, ...] = (*_FLOAT_FILLS, *_ANY_FILLS, "index:EXPR")
"""Every fill. `large` is 1000 x normal, `huge` 1e15 x, `tiny` 1e-20 x, `offset` 1000 + normal; `cancellation` holds
+a and -a in the halves of every row; `ints` are whole numbers from -4 to 4, whose sums stay exact; `ties` from 0 to 63;
`nan_one`, `inf_one`, `neg_inf_one` are normal with one such element; `index:EXPR` whole numbers in [0, EXPR)."""


def fill_names(fill: str) -> frozenset[str]:
    """The sizes a fill's expression uses. Raises InputError for a malformed expression."""
    return Expression.parse(fill.removeprefix("index:")).names if fill.startswith("index:") else frozenset()


def _index_bound(fill: str, tensor: Tensor, case: Case) -> int:
    text = fill.removeprefix("index:")
    return evaluate(text, case.sizes, what=f"the fill of {tensor.name}", minimum=1, case=case.name)


def check_fill(fill: str, tensor: Tensor, case: Case) -> None:
    """Raises InputError if there is no such fill, or if it does not suit the tensor's dtype in this case."""
    if fill.startswith("index:"):
        bound = _index_bound(fill, tensor, case)
        if not is_float(tensor.dtype) and bound > _integers(tensor.dtype):
            raise InputError(
                f"fill of {tensor.name} does not fit {tensor.dtype}", value=bound, next_step="Use a wider dtype."
            )
    elif fill not in _ANY_FILLS and fill not in _FLOAT_FILLS:
        raise InputError(f"unknown fill of {tensor.name}", value=fill, next_step=nearest_text(fill, FILL_NAMES))
    elif fill not in _ANY_FILLS and not is_float(tensor.dtype):
        known = ", ".join((*_ANY_FILLS, "index:EXPR"))
        raise InputError(
            f"fill of {tensor.name} is for floats, not {tensor.dtype}", value=fill, next_step=f"Use {known}."
        )


def _integers(dtype: str) -> int:
    """How many whole numbers from 0 on an integer dtype holds."""
    return int(2 ** (8 * item_bytes(dtype) - dtype.startswith("i")))


def make_inputs(task: Task, case: Case, seed: int, xp: ArrayModule | None = None) -> dict[str, Array]:
    """The arrays of the case's `in` and `inout` tensors by name, C-contiguous, as `xp` (None: numpy) carries them.

    Equal for equal task, case and seed on one `xp` (numpy: SFC64; cupy: its default generator). Raises InputError for
    an unknown fill.
    """
    if xp is None:
        import numpy

        xp = numpy
    arrays: dict[str, Array] = {}
    for tensor in input_tensors(task):
        fill = case.fill.get(tensor.name, tensor.fill)
        check_fill(fill, tensor, case)
        digest = hashlib.sha256(f"{seed}/{tensor.name}".encode()).digest()
        source = _Source(xp, int.from_bytes(digest[:8], "little"), tensor.dtype)
        shape = shape_of(tensor, case)
        if fill.startswith("index:"):
            values = source.integers(0, _index_bound(fill, tensor, case), shape)
        else:
            values = (_FLOAT_FILLS.get(fill) or _ANY_FILLS[fill])(source, shape)
        arrays[tensor.name] = _carried(values, fill, tensor, xp)
    return arrays


def _carried(values: Array, fill: str, tensor: Tensor, xp: ArrayModule) -> Array:
    if is_float(tensor.dtype):
        if values.dtype.kind != "f":
            values = values.astype(xp.float64 if tensor.dtype == "f64" else xp.float32)
        return xp.ascontiguousarray(round_to(values, tensor.dtype, xp))
    if fill == "ints" and tensor.dtype.startswith("u"):
        values = abs(values)
    return xp.ascontiguousarray(values.astype(carrier_dtype(tensor.dtype, xp), copy=False))
