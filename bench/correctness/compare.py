"""Every element of one output against what it must be: by scaled error, or bit by bit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...store.models import Mismatch, Tensor
from ..tasks.dtypes import Array, ArrayModule, carrier_dtype, is_float, largest, raw_bits, to_float
from .hints import hint
from .norms import TAIL_SHARE, Norms, Scale


@dataclass(frozen=True)
class ExactExpectation:
    """An output compared bit by bit; `golden` is what the tensor must hold, of its dtype and shape."""

    case: str
    tensor: Tensor
    golden: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.golden.shape)

    def accepts(self, got: Array | None, xp: ArrayModule) -> bool:
        """Whether `check` finds nothing."""
        return self.check(got, xp) is None

    def check(self, got: Array | None, xp: ArrayModule) -> Mismatch | None:
        """The first wrong element, or None."""
        if got is None or not _same_form(got, self.tensor, self.shape, xp):
            return _wrong_form(self.case, self.tensor, self.shape, got)
        got, dtype = xp.ascontiguousarray(got), self.tensor.dtype
        wrong = raw_bits(got) != raw_bits(self.golden)
        count = int(wrong.sum())
        if count == 0:
            return None
        first = int(wrong.argmax())
        note = hint(got, to_float(self.golden, dtype, xp), wrong, dtype=dtype, limit=0.0, xp=xp)
        return Mismatch(
            case=self.case,
            tensor=self.tensor.name,
            index=_index(first, self.shape),
            got=_text(got.reshape(-1)[first], dtype, xp),
            want=_text(self.golden.reshape(-1)[first], dtype, xp),
            error=None,
            limit=None,
            wrong=count,
            total=wrong.size,
            explanation=f"{count} of {wrong.size} elements differ; here every bit counts. {note}".strip(),
        )


class _Wrong(NamedTuple):
    """What is wrong: the element to name, which ones are, how many, the rms of all errors, and words if it is no
    element.
    """

    at: int
    wrong: Array
    total: int
    rms: float
    text: str


@dataclass(frozen=True)
class FloatExpectation:
    """An output within a precision: golden (flat f64), scale, the norms of two references' errors, and the limits."""

    case: str
    tensor: Tensor
    shape: tuple[int, ...]
    golden: Array
    scale: Scale
    declared: Norms
    lower: Norms
    limits: Norms

    def accepts(self, got: Array | None, xp: ArrayModule) -> bool:
        """Whether `check` would find nothing, without looking for words."""
        if got is None or not _same_form(got, self.tensor, self.shape, xp):
            return False
        return self._wrong(xp.ascontiguousarray(got).reshape(-1), xp) is None

    def check(self, got: Array | None, xp: ArrayModule) -> Mismatch | None:
        """The first wrong element, or None."""
        if got is None or not _same_form(got, self.tensor, self.shape, xp):
            return _wrong_form(self.case, self.tensor, self.shape, got)
        flat = xp.ascontiguousarray(got).reshape(-1)
        found = self._wrong(flat, xp)
        return None if found is None else self._mismatch(flat, found, xp)

    def _wrong(self, flat: Array, xp: ArrayModule) -> _Wrong | None:
        total = flat.size
        wrong = xp.zeros(total, bool)
        tail, finite, squares, worst, worst_at = 0, 0, 0.0, -1.0, 0
        for part in self.scale.parts():
            value = to_float(flat[part], self.tensor.dtype, xp)
            error = self.scale.error(value, part, xp)
            top = float(error.max())
            # A comparison with NaN is false: a NaN never takes the short way, and is never accepted by its error.
            if not top <= self.limits.maximum:
                wrong[part] = ~self._right(value, error, part, xp)
                error = xp.where(xp.isfinite(error), error, 0.0)
                top = float(error.max())
            finite += error.size
            tail += int((error > self.limits.tail).sum())
            squares += float(xp.square(xp.minimum(error, 1e100)).sum())
            if top > worst:
                worst, worst_at = top, part.start + int(error.argmax())
        rms = math.sqrt(squares / finite)
        count = int(wrong.sum())
        if count:
            return _Wrong(int(wrong.argmax()), wrong, count, rms, "")
        if tail > int(total * TAIL_SHARE):
            text = f"More than {TAIL_SHARE:.1%} of the elements have a scaled error above {self.limits.tail:.2g}."
            return _Wrong(worst_at, wrong, tail, rms, text)
        if rms > self.limits.rms:
            text = f"No element is far off, but the scaled errors' rms is {rms:.2g}, above {self.limits.rms:.2g}."
            return _Wrong(worst_at, wrong, total, rms, text)
        return None

    def _right(self, value: Array, error: Array, part: slice, xp: ArrayModule) -> Array:
        golden, top = self.golden[part], largest(self.tensor.dtype)
        # At the end of the dtype's range a number and its infinity are both right.
        number = (error <= self.limits.maximum) & (abs(golden) <= 1.01 * top)
        infinity = xp.isinf(value) & (xp.sign(value) == xp.sign(golden)) & (abs(golden) >= 0.99 * top)
        return number | infinity | (xp.isnan(value) & xp.isnan(golden))

    def _mismatch(self, flat: Array, found: _Wrong, xp: ArrayModule) -> Mismatch:
        at, wrong, count, rms, text = found
        dtype, limit = self.tensor.dtype, self.limits.maximum
        part = next(part for part in self.scale.parts() if at < part.stop)
        error = float(self.scale.error(to_float(flat[part], dtype, xp), part, xp)[at - part.start])
        note = hint(
            flat.reshape(self.shape),
            self.golden.reshape(self.shape),
            wrong.reshape(self.shape),
            dtype=dtype,
            limit=limit,
            xp=xp,
        )
        if not note and rms <= 3 * self.lower.rms:
            note = "The errors are as large as the next lower precision's: a narrower type, or a rougher function?"
        return Mismatch(
            case=self.case,
            tensor=self.tensor.name,
            index=_index(at, self.shape),
            got=_text(flat[at], dtype, xp),
            want=f"{float(self.golden[at]):.9g}",
            error=error if math.isfinite(error) else None,
            limit=limit,
            wrong=count,
            total=flat.size,
            explanation=f"{text or f'{count} of {flat.size} elements are wrong.'} {note}".strip(),
        )


def _same_form(got: Array, tensor: Tensor, shape: tuple[int, ...], xp: ArrayModule) -> bool:
    dtypes = [carrier_dtype(tensor.dtype, xp)] + ([np.dtype(np.uint16)] if tensor.dtype == "bf16" else [])
    return tuple(got.shape) == shape and got.dtype in dtypes


def _wrong_form(case: str, tensor: Tensor, shape: tuple[int, ...], got: Array | None) -> Mismatch:
    total = math.prod(shape)
    return Mismatch(
        case=case,
        tensor=tensor.name,
        index=(),
        got="nothing" if got is None else f"{got.dtype}{list(got.shape)}",
        want=f"{tensor.dtype}{list(shape)}",
        error=None,
        limit=None,
        wrong=total,
        total=total,
        explanation="The output has another shape or dtype than the task declares.",
    )


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(position) for position in np.unravel_index(flat, shape))


def _text(element: Array, dtype: str, xp: ArrayModule) -> str:
    if is_float(dtype):
        return f"{float(to_float(element.reshape(1), dtype, xp)[0]):.9g}"
    return str(int(element))
