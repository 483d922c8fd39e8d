"""How far two kernels' times are expected to go together: a mean of four likenesses of their programs.

By shared text, by marks that only one of them has, by features and by tunable values; together they say more than any
one of them (`docs/forecasts.md`). How much each counts, and how fast it fades, is a `Shape`. It is of amplitude 1: how
much the kernels of a task differ is the task's own, by a factor of a hundred between tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..density import Array


@dataclass(frozen=True)
class Shape:
    """shares: of text, marks, features, tunables; they sum to 1. noise: standard deviation of what no likeness tells,
    one measurement's noise included, over the amplitude."""

    shares: tuple[float, float, float, float]
    text: float
    """Similarity s counts exp((s - 1) / text)."""
    marks: float
    """So many different marks count exp(-marks / this)."""
    features: float
    """Width of the features' Gaussian, in standard deviations a feature."""
    tunables: float
    """Width of the tunables' Gaussian, octaves."""
    noise: float

    def covariance(self, pairs: Array, distance: Array) -> Array:
        """(…, n, m) for amplitude 1. pairs: (3, …, n, m) as `likeness.compared` gives them; distance: (…, n, m) mean
        squared differences of standardised features."""
        parts = (
            np.exp((pairs[0] - 1) / self.text),
            np.exp(-pairs[1] / self.marks),
            np.exp(-distance / (2 * self.features**2)),
            np.exp(-pairs[2] / (2 * self.tunables**2)),
        )
        return np.asarray(sum(share * part for share, part in zip(self.shares, parts, strict=True)))


def distances(one: Array, other: Array) -> Array:
    """(n, m) mean squared differences of features (n, d) and (m, d)."""
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None] - 2 * one @ other.T
    return np.asarray(np.maximum(squares, 0.0) / one.shape[1])
