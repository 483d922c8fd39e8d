"""What kind of mistake does a wrong output look like? One sentence where a known pattern fits, else nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..tasks.dtypes import Array, ArrayModule, to_float
from .poison import poisoned

_LOOSE = 16.0
"""A pattern counts as found if its errors stay within this many limits."""
_MOST = 0.9


def hint(got: Array, want: Array, wrong: Array, *, dtype: str, limit: float, xp: ArrayModule) -> str:
    """The sentence, or an empty text.

    got: the output of this dtype; want: f64 of the same shape; wrong: which elements are wrong; limit: the scaled error
    allowed, 0 for exact outputs.
    """
    unwritten = poisoned(got, dtype)
    if bool(unwritten.any()):
        count = int(unwritten.sum())
        return f"{count} elements were never written: they still hold the poison.{_where(unwritten, xp)}"
    value = to_float(got, dtype, xp)
    with np.errstate(all="ignore"):
        stray = xp.isnan(value) & ~xp.isnan(want)
        if bool(stray.any()):
            return f"{int(stray.sum())} elements are NaN where a number is wanted.{_where(stray, xp)}"
        return _pattern(value, want, limit, xp) or _where(wrong, xp).strip()


def _pattern(value: Array, want: Array, limit: float, xp: ArrayModule) -> str:
    if not bool(value.any()):
        return "Every element is zero."
    if value.size > 1 and bool((value == value.reshape(-1)[0]).all()) and bool((want != want.reshape(-1)[0]).any()):
        return "Every element is the same."
    for pattern, (moved, unmoved) in _guesses(value, want):
        if _matches(moved, unmoved, limit, xp):
            return pattern
    factor = _factor(value, want, limit, xp)
    return "" if factor is None else f"Every element is {factor:.4g} times what is wanted."


def _guesses(value: Array, want: Array) -> Iterator[tuple[str, tuple[Array, Array]]]:
    if want.ndim >= 2 and want.shape[-2] > 1 and want.shape[-1] > 1:
        rows, columns = want.shape[-2:]
        turned = value.reshape(*want.shape[:-2], columns, rows).swapaxes(-1, -2)
        yield "The output looks transposed.", (turned, want)
    for axis, extent in enumerate(want.shape):
        if extent < 3:
            continue
        front: tuple[slice, ...] = (slice(None),) * axis + (slice(0, extent - 1),)
        back: tuple[slice, ...] = (slice(None),) * axis + (slice(1, extent),)
        yield f"The output is shifted by one along axis {axis} (towards higher indices).", (value[back], want[front])
        yield f"The output is shifted by one along axis {axis} (towards lower indices).", (value[front], want[back])


def _matches(value: Array, want: Array, limit: float, xp: ArrayModule) -> bool:
    finite = xp.isfinite(value) & xp.isfinite(want)
    if not bool(finite.any()):
        return False
    spread = math.sqrt(float(xp.square(xp.where(finite, want, 0.0)).mean()))
    close = finite & (abs(value - want) <= max(_LOOSE * limit, 1e-12) * spread)
    # A nearly constant output matches its own shifts, which says nothing.
    lively = float(abs(xp.where(finite, want - want.reshape(-1)[0], 0.0)).max()) > 1e-3 * spread
    return spread > 0 and lively and float(close.mean()) >= _MOST


def _factor(value: Array, want: Array, limit: float, xp: ArrayModule) -> float | None:
    flat = xp.where(xp.isfinite(want), abs(want), 0.0).reshape(-1)
    at = int(flat.argmax())
    top = float(want.reshape(-1)[at])
    if top == 0 or not math.isfinite(top):
        return None
    factor = float(value.reshape(-1)[at]) / top
    if not math.isfinite(factor) or factor == 0 or abs(factor - 1) <= _LOOSE * limit:
        return None
    return factor if want.size >= 8 and _matches(value, factor * want, limit * abs(factor), xp) else None


def _where(marked: Array, xp: ArrayModule) -> str:
    """Where the marked elements lie, if that says something: only the tail, one row range, one column range."""
    flat = marked.reshape(-1)
    total, count = flat.size, int(flat.sum())
    if count in (0, total):
        return ""
    first, last = int(flat.argmax()), total - 1 - int(flat[::-1].argmax())
    if last == total - 1 and count == total - first:
        return f" They are the last {count} of {total}: is the last tile handled?"
    for axis, extent in enumerate(marked.shape):
        if marked.ndim == 1 or extent < 2:
            continue
        others = tuple(other for other in range(marked.ndim) if other != axis)
        touched = xp.asarray(marked.any(axis=others))
        low, high = int(touched.argmax()), extent - 1 - int(touched[::-1].argmax())
        if low > 0 and high == extent - 1:
            return f" All lie at index {low} and above of axis {axis} ({extent} long): is the last tile handled?"
        if low == 0 and high < extent - 1 and high <= extent // 2:
            return f" All lie below index {high + 1} of axis {axis} ({extent} long)."
    if first > total // 2:
        return f" The first of them is at flat index {first} of {total}."
    return ""
