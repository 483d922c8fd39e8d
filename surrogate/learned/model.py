"""The learned forecaster's model: the logarithm of a kernel's time as a linear score plus a Gaussian process.

Within one task on one device, y(k) = log2 time = offset + w · features(k) + a · u(k), where u is a Gaussian process of
amplitude 1 whose covariance says that kernels alike in text, marks, features and tunables take alike times (Rasmussen &
Williams, 2006, chapter 2), and the offset is unknown. So is the task's amplitude a, which differs by a factor of a
hundred between tasks: it is one of a few, and the measured kernels say how likely each of them is. Measured siblings
and the baseline's own time condition all that. Then log2 S of a candidate b over a baseline a is y(a) - y(b): a mixture
of normals of one mean, and by construction f_ab(x) = f_ba(-x), with a tie for equal programs.
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
from .. import density
from ..density import Array
from .covariance import Shape, distances
from .features import NAMES
from .likeness import Alike

FORMAT = 2
_NEXT = "Train one: kforecast train learned."
OFFSET_VARIANCE = 400.0
"""Of the unknown offset, amplitude 1: wide, so that only differences count."""
_LEAST_SD = 1e-6


@dataclass(frozen=True)
class Difference:
    """log2 S: a mixture of normals of one mean. sds, shares: of its parts, octaves and adding up to 1."""

    mean: float
    sds: tuple[float, ...]
    shares: tuple[float, ...]

    @property
    def sd(self) -> float:
        """Standard deviation of the whole."""
        return math.sqrt(math.fsum(share * sd**2 for share, sd in zip(self.shares, self.sds, strict=True)))

    @property
    def p_bins(self) -> tuple[float, ...]:
        """The 8 bin probabilities."""
        p = np.zeros(len(density.KNOTS) - 1)
        for share, sd in zip(self.shares, self.sds, strict=True):
            p += share * np.array(bins_of_normal(self.mean, sd))
        return tuple(map(float, p / p.sum()))


@dataclass(frozen=True)
class Model:
    """The arrays. trained_for: (language, device kind) pairs; feature order as in `features.NAMES`."""

    trained_for: tuple[tuple[str, str], ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    shape: Shape
    amplitudes: tuple[float, ...]
    """What a task's amplitude may be, octaves."""
    shares: tuple[float, ...]
    """How many tasks have each of them."""
    correct: tuple[float, ...]
    """Logistic weights of P(correct), the constant first."""
    kernels: int = 0
    tasks: int = 0

    @property
    def amplitude(self) -> float:
        """The usual amplitude: the geometric mean, octaves."""
        return float(np.exp(np.array(self.shares) @ np.log(self.amplitudes)))

    def standard(self, vectors: Array) -> Array:
        """(n, d) features in standard deviations of the training set."""
        return np.asarray((vectors - np.array(self.mean)) / np.array(self.scale))

    def p_correct(self, vector: Array) -> float:
        """P(correct) of one kernel from its features, (d,)."""
        score = self.correct[0] + float(self.standard(vector[None])[0] @ np.array(self.correct[1:]))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))

    def difference(self, alike: Alike, known: Sequence[float | None]) -> Difference:
        """y[0] - y[1], given log2 times of some of n kernels. known: n log2 times, None where not measured."""
        standard = self.standard(alike.vectors)
        prior = standard @ np.array(self.weights)
        cov = self.shape.covariance(alike.pairs, distances(standard, standard))
        contrast = np.zeros(len(prior))
        contrast[0], contrast[1] = 1.0, -1.0
        mean, variance = float(contrast @ prior), float(contrast @ cov @ contrast)
        shares = np.array(self.shares)
        seen = [index for index, value in enumerate(known) if value is not None]
        if seen:
            # Subtracting the mean first keeps the numbers small; the offset takes it up.
            y = np.array([value for value in known if value is not None]) - prior[seen]
            y = y - y.mean()
            gram = cov[np.ix_(seen, seen)] + np.eye(len(seen)) * self.shape.noise**2 + OFFSET_VARIANCE
            cross = contrast @ cov[:, seen]  # the offset drops out of a contrast
            solved = np.linalg.solve(gram, np.stack([y, cross], axis=1))
            mean += float(cross @ solved[:, 0])
            variance -= float(cross @ solved[:, 1])
            shares = posterior(shares, np.array(self.amplitudes), float(y @ solved[:, 0]), len(seen))
        sd = math.sqrt(max(variance, 0.0))
        return Difference(mean, tuple(amplitude * sd for amplitude in self.amplitudes), tuple(map(float, shares)))


def evidence(amplitudes: Array, quadratic: Array | float, count: int) -> Array:
    """Log likelihood of n readings for each amplitude, (…, a), but for what does not depend on it. quadratic: of the
    readings less their prior mean, by the inverse of their covariance of amplitude 1."""
    squares = np.asarray(quadratic)[..., None] / amplitudes**2
    return np.asarray(-0.5 * (squares + (count - 1) * np.log(amplitudes**2)))


def posterior(shares: Array, amplitudes: Array, quadratic: float, count: int) -> Array:
    """The shares of the amplitudes after n readings (see `evidence`)."""
    logs = evidence(amplitudes, quadratic, count)
    weights = shares * np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


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
