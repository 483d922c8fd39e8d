"""Three norms of an output's scaled error, and the limits they must keep."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..tasks.dtypes import Array, ArrayModule

CHUNK = 1 << 20
"""Elements looked at in one go: what stays in a processor's cache."""
DEVICE_CHUNK = 1 << 23
"""The same on a GPU, where each step costs launches and a wait."""
TAIL_SHARE = 0.001
"""The tail norm is the error that this share of the elements may exceed."""
HEADROOM = 3.0
"""Honest kernels may be this many times worse than the reference, or than rounding and serial summation explain."""
_FEW = 64
_ROW = 16
_SAMPLE = 1 << 20


class Norms(NamedTuple):
    """Largest, 99.9th percentile and root-mean-square scaled error."""

    maximum: float
    tail: float
    rms: float


@dataclass(frozen=True)
class Scale:
    """What each element's error is measured against: `given` where the task says, else max(|golden|, rms of its row).

    golden: flat f64. row_rms: of every row of `row` elements, positive; a row is the fewest last axes that hold 16
    elements. given: flat f64, or None; where it is no positive number, the other rule holds.
    """

    golden: Array
    row_rms: Array
    row: int
    given: Array | None = None

    @classmethod
    def of(cls, golden: Array, given: Array | None, xp: ArrayModule) -> Scale:
        """golden: C-contiguous f64 of any shape; given: of the same shape, or None.

        A row of zeros takes the whole tensor's rms, a tensor of zeros takes 1.
        """
        row = 1
        for extent in reversed(golden.shape):
            row *= extent
            if row >= _ROW:
                break
        rows = abs(golden.reshape(-1, row))
        if not bool(xp.isfinite(rows).all()):
            rows = xp.where(xp.isfinite(rows), rows, 0.0)
        # Divided by the peak first: squares of numbers near the end of f64's range would overflow.
        peak = float(rows.max())
        rows /= peak or 1.0
        xp.square(rows, out=rows)
        mean_squares = rows.mean(axis=1)
        mean_squares = xp.where(mean_squares > 0, mean_squares, mean_squares.mean() if peak else 1.0)
        row_rms = xp.sqrt(mean_squares) * (peak or 1.0)
        return cls(golden.reshape(-1), row_rms, row, None if given is None else given.reshape(-1))

    @property
    def chunk(self) -> int:
        """Elements looked at in one go where the golden values lie."""
        return CHUNK if isinstance(self.golden, np.ndarray) else DEVICE_CHUNK

    def parts(self) -> Iterator[slice]:
        """The flat elements in pieces of about `chunk`: whole rows, or pieces of one row where rows are longer."""
        total, chunk = self.golden.size, self.chunk
        if self.row <= chunk:
            step = chunk // self.row * self.row
            yield from (slice(start, min(total, start + step)) for start in range(0, total, step))
            return
        for start in range(0, total, self.row):
            stop = start + self.row
            yield from (slice(at, min(stop, at + chunk)) for at in range(start, stop, chunk))

    def error(self, candidate: Array, part: slice, xp: ArrayModule) -> Array:
        """|candidate - golden| / scale of one of the `parts`, f64; NaN or infinite where either side is."""
        golden = self.golden[part]
        if self.row <= self.chunk:
            rms = xp.repeat(self.row_rms[part.start // self.row : part.stop // self.row], self.row)
        else:
            rms = self.row_rms[part.start // self.row]
        with np.errstate(all="ignore"):
            size = abs(golden)
            scale = xp.maximum(xp.where(size < np.inf, size, 0.0), rms)
            if self.given is not None:
                given = self.given[part]
                scale = xp.where(xp.isfinite(given) & (given > 0), given, scale)
            error = candidate - golden
            return abs(error) / scale


def measure_norms(scale: Scale, candidate: Array, xp: ArrayModule) -> Norms:
    """Norms of the scaled error over the elements where it is finite; zeros if there are none. candidate: flat f64.

    The percentile of a large output is taken over an evenly spaced sample.
    """
    total = candidate.size
    kept: list[Array] = []
    maximum, squares, count = 0.0, 0.0, 0
    stride = max(1, total // _SAMPLE)
    for part in scale.parts():
        error = scale.error(candidate[part], part, xp)
        if not math.isfinite(float(error.max())):
            error = error[xp.isfinite(error)]
        if error.size:
            maximum = max(maximum, float(error.max()))
            squares += float(xp.square(xp.minimum(error, 1e100)).sum())
            count += error.size
            kept.append(error[::stride])
    if not count:
        return Norms(0.0, 0.0, 0.0)
    tail = maximum if total * TAIL_SHARE < 1 else _tail(xp.concatenate(kept), xp)
    return Norms(maximum, tail, math.sqrt(squares / count))


def _tail(sample: Array, xp: ArrayModule) -> float:
    """The value that TAIL_SHARE of the sample is above."""
    place = sample.size - 1 - int(sample.size * TAIL_SHARE)
    # numpy finds one place without putting all in order; cupy sorts for either.
    return float((np.partition(sample, place) if isinstance(sample, np.ndarray) else xp.sort(sample))[place])


def limits(declared: Norms, lower: Norms, *, rounding: float, lower_rounding: float, elements: int) -> Norms:
    """The limit of each norm: between what honest kernels do and what the next lower precision does.

    declared, lower: norms of the reference at the declared and at the next lower precision; rounding: the least error
    an honest kernel must be allowed, from the roundoff of its output and of its running sums; lower_rounding: the lower
    precision's unit roundoff; elements: of the output. The limit is the geometric mean of HEADROOM times the honest
    error and the lower precision's, and never less than the former: where long sums drown the operands' rounding,
    honest kernels win.
    """
    few = elements < _FEW

    def limit(honest: float, wrong: float, least: float) -> float:
        base = HEADROOM * max(honest, least)
        if few:
            # A few elements may round well by luck, which says nothing about the precision.
            wrong = max(wrong, lower_rounding / 4)
        return max(base, math.sqrt(base * min(wrong, 1.0)))

    # Rounding errors spread about evenly up to their bound, so many of them have an rms well below it.
    spread = rounding if few else rounding / 3
    return Norms(
        limit(declared.maximum, lower.maximum, rounding),
        limit(declared.tail, lower.tail, rounding),
        limit(declared.rms, lower.rms, spread),
    )
