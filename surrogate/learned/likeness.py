"""How alike the kernels of one task are, as matrices: each pair is compared once, however often it is asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...store.models import Kernel
from ..contract import Side
from ..density import Array
from ..structure import similarity
from .features import NAMES, vector
from .marks import apart, unlike

_MOST = 1024
"""Kernels kept; when there are more, it begins anew with those that are asked about."""


@dataclass(frozen=True)
class Alike:
    """n kernels: features (n, d), and `compared` of them."""

    vectors: Array
    pairs: Array


def compared(kernels: Sequence[Kernel]) -> Array:
    """(3, n, n): text similarity, numbers of different marks, squared distances of tunable values in octaves."""
    pairs = np.zeros((3, len(kernels), len(kernels)))
    for row, one in enumerate(kernels):
        for column, other in enumerate(kernels[: row + 1]):
            pairs[:, row, column] = pairs[:, column, row] = _pair(one, other)
    return pairs


def _pair(one: Kernel, other: Kernel) -> tuple[float, int, float]:
    return similarity(one, other), unlike(one, other), apart(one, other)


class Likeness:
    """Comparisons of one task's kernels. A kernel's facts are those that it first came with."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._place: dict[str, int] = {}
        self._kernels: list[Kernel] = []
        self._vectors = np.zeros((0, len(NAMES)))
        self._pairs = np.zeros((3, 0, 0))

    def of(self, sides: Sequence[Side]) -> Alike:
        """The comparisons of these kernels with each other, in their order."""
        new = [side for side in sides if side.kernel.id not in self._place]
        if len(self._place) + len(new) > _MOST:
            self._begin()
            new = list(sides)
        if new:
            self._add(list({side.kernel.id: side for side in new}.values()))
        rows = np.array([self._place[side.kernel.id] for side in sides], dtype=int)
        return Alike(self._vectors[rows], self._pairs[:, rows[:, None], rows[None]])

    def _add(self, new: Sequence[Side]) -> None:
        before, after = len(self._kernels), len(self._kernels) + len(new)
        pairs = np.zeros((3, after, after))
        pairs[:, :before, :before] = self._pairs
        for row, side in enumerate(new, before):
            one = side.kernel
            self._place[one.id] = row
            self._kernels.append(one)
            for column, other in enumerate(self._kernels):
                pairs[:, row, column] = pairs[:, column, row] = _pair(one, other)
        self._pairs = pairs
        self._vectors = np.concatenate([self._vectors, [vector(side.kernel, side.facts) for side in new]])
