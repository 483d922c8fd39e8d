"""The learned forecaster's model: the logarithm of a kernel's time as a linear score plus a Gaussian process.

Within one task on one device, y(k) = log2 time = offset + w · features(k) + u(k), where u is a Gaussian process whose
covariance says that kernels alike in text, tunables and features take alike times (Rasmussen & Williams, 2006, chapter
2), and the offset is unknown. Measured siblings and the baseline's own time condition it. Then log2 S of a candidate b
over a baseline a is y(a) - y(b): normal, and by construction f_ab(x) = f_ba(-x), with a tie for equal programs.
P(correct) is a logistic score of the candidate alone.

A model is a few arrays, read from and written to JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

from ...store.errors import InputError
from ...store.models import Kernel
from .. import density
from ..density import Array
from ..structure import similarity
from .features import NAMES

FORMAT = 1
_NEXT = "Train one: kforecast train learned."
_OFFSET_SD = 20.0
"""Of the unknown offset, octaves: wide, so that only differences count."""
_JITTER = 1e-9
_LEAST_SD = 1e-6


@dataclass(frozen=True)
class Model:
    """The arrays. trained_for: (language, device kind) pairs; feature order as in `features.NAMES`."""

    trained_for: tuple[tuple[str, str], ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    amplitude: float
    """Standard deviation of u, octaves."""
    share: float
    """Of the covariance by structural similarity, 0..1; the rest is by features."""
    length: float
    """How fast similarity fades: correlation exp((similarity - 1) / length)."""
    width: float
    """Of the features' Gaussian kernel, in standard deviations a feature."""
    noise: float
    """Standard deviation of one measurement, octaves."""
    correct: tuple[float, ...]
    """Logistic weights of P(correct), the constant first."""
    kernels: int = 0
    tasks: int = 0

    def standard(self, vectors: Array) -> Array:
        """(n, d) features in standard deviations of the training set."""
        return np.asarray((vectors - np.array(self.mean)) / np.array(self.scale))

    def p_correct(self, vector: Array) -> float:
        """P(correct) of one kernel from its features, (d,)."""
        score = self.correct[0] + float(self.standard(vector[None])[0] @ np.array(self.correct[1:]))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))

    def covariance(self, alike: Array, standard: Array) -> Array:
        """(n, n) covariance of u from similarities (n, n) and standardised features (n, d)."""
        distances = ((standard[:, None] - standard[None]) ** 2).mean(axis=2)
        by_text = np.exp((alike - 1) / self.length)
        return np.asarray(
            self.amplitude**2 * (self.share * by_text + (1 - self.share) * np.exp(-distances / (2 * self.width**2)))
        )

    def difference(self, alike: Array, vectors: Array, known: Sequence[float | None]) -> tuple[float, float]:
        """(mean, standard deviation) of y[0] - y[1], given log2 times of some of n kernels.

        alike: (n, n) similarities; vectors: (n, d) features; known: n log2 times, None where not measured.
        """
        standard = self.standard(vectors)
        prior = standard @ np.array(self.weights)
        cov = self.covariance(alike, standard)
        contrast = np.zeros(len(prior))
        contrast[0], contrast[1] = 1.0, -1.0
        mean, variance = float(contrast @ prior), float(contrast @ cov @ contrast)
        seen = [index for index, value in enumerate(known) if value is not None]
        if seen:
            # Subtracting the mean first keeps the numbers small; the offset takes it up.
            y = np.array([value for value in known if value is not None]) - prior[seen]
            gram = cov[np.ix_(seen, seen)] + np.eye(len(seen)) * (self.noise**2 + _JITTER)
            gram_with_offset = gram + _OFFSET_SD**2
            cross = contrast @ cov[:, seen]  # the offset drops out of a contrast
            mean += float(cross @ np.linalg.solve(gram_with_offset, y - y.mean()))
            variance -= float(cross @ np.linalg.solve(gram_with_offset, cross))
        return mean, math.sqrt(max(variance, 0.0))


def alike(kernels: Sequence[Kernel]) -> Array:
    """(n, n) structural similarities."""
    result = np.eye(len(kernels))
    for row, one in enumerate(kernels):
        for column in range(row):
            result[row, column] = result[column, row] = similarity(one, kernels[column])
    return result


def bins_of_normal(mean: float, sd: float) -> tuple[float, ...]:
    """The 8 bin probabilities of log2 S ~ N(mean, sd²), mirrored by mean -> -mean; a sure 0 is half bin 4, half 5."""
    sd = max(sd, _LEAST_SD)
    inner = [math.erfc(-(float(edge) - mean) / (sd * math.sqrt(2))) / 2 for edge in density.KNOTS[1:-1]]
    upper = [math.erfc((float(edge) - mean) / (sd * math.sqrt(2))) / 2 for edge in density.KNOTS[1:-1]]
    # Differences of whichever tail is small: no cancellation, and the mirror image comes out the same.
    p = [inner[0]]
    for low in range(len(inner) - 1):
        p.append(inner[low + 1] - inner[low] if inner[low + 1] < 0.5 else upper[low] - upper[low + 1])
    p.append(upper[-1])
    total = math.fsum(p)
    return tuple(value / total for value in p)


def save(model: Model, path: Path) -> None:
    """Write a model as JSON."""
    path.write_text(json.dumps({"format": FORMAT, "features": NAMES, **asdict(model)}) + "\n", encoding="utf-8")


def load(path: Path) -> Model:
    """Read a model. Raises InputError for a file that is none, or one of other features or another format."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError("The learned model cannot be read", value=path, next_step=_NEXT) from error
    if not isinstance(raw, dict) or raw.pop("format", None) != FORMAT or raw.pop("features", None) != list(NAMES):
        raise InputError("The learned model is of another version", value=path, next_step=_NEXT)
    try:
        return TypeAdapter(Model).validate_python(raw)
    except ValidationError as error:
        raise InputError("The learned model is damaged", value=path, next_step=_NEXT) from error
