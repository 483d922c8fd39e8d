"""What the engine asks of a forecaster, and the base rate that needs nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ...store.models import DecisionKind, Kernel
from ...surrogate.calibration.audit import audit_probability, drawn
from .events import OwnForecast


@dataclass(frozen=True)
class Learnt:
    """A kernel that the search has measured. log2: of S against the seed; None where it is not right."""

    kernel: Kernel
    log2: float | None


@dataclass(frozen=True)
class ForecastAsk:
    """One candidate against its anchor, the nearest measured ancestor. own: what its author said of it.

    anchor_log2: the anchor's measured S against the seed. learnt: what this search has measured, in order; only for
    forecasters that learn from it.
    """

    node: str
    kernel: Kernel
    anchor: Kernel
    device: str
    own: OwnForecast | None = None
    anchor_log2: float = 0.0
    learnt: tuple[Learnt, ...] = ()


@dataclass(frozen=True)
class Outlook:
    """A forecast in octaves of S against the anchor, and the decision on it; no numbers where none came.

    audited: whether an audit was drawn, with that probability; None: the engine draws.
    """

    forecaster: str
    p_correct: float | None = None
    log2_median: float | None = None
    log2_p10: float | None = None
    log2_p90: float | None = None
    p_faster: float | None = None
    """P(S > 1) given correct."""
    decision: DecisionKind = "measure"
    answer: Literal["faster", "slower", "unsure"] = "unsure"
    reason: str = ""
    final: bool = False
    audited: bool | None = None
    probability: float = 1.0
    forecast_id: str | None = None
    problem: str = ""
    usd: float = 0.0
    tokens: int = 0


class Forecaster(Protocol):
    """A forecaster as a search uses it."""

    name: str
    inline: bool
    """It answers at once, without a model or a compiler."""
    costs: bool
    """It takes money or tokens; candidates of one anchor are then asked about together."""
    trained_on: frozenset[str]
    """Names of the tasks it has seen measured: a replay of one of them would be a leak."""
    renews: str
    """Name of the forecaster whose forecasts it makes anew as the search measures more; '': of none."""

    def outlooks(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """Forecasts of candidates of one anchor. Raises KforecastError where the forecaster cannot be asked."""
        ...

    def renewed(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """Forecasts of candidates of any anchors from what the search has measured by now; decisions stay."""
        ...


class BaseRateForecaster:
    """Says the same of every candidate; what is the same program as its anchor is a tie."""

    name = "base-rate"
    inline = True
    costs = False
    trained_on: frozenset[str] = frozenset()
    renews = ""

    def outlooks(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """A wide distribution a little below 1: most changes help little or hurt."""
        reason = "The base rate says nothing of one candidate."
        return [Outlook(self.name, 0.75, -0.1, -1.0, 0.5, reason=reason) for _ in asks]

    def renewed(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """The same: it learns nothing."""
        return self.outlooks(asks)


@dataclass
class ScriptedForecaster:
    """Answers by a function: for tests and controls."""

    script: Callable[[ForecastAsk], Outlook]
    name: str = "scripted"
    inline: bool = True
    costs: bool = False
    trained_on: frozenset[str] = frozenset()
    renews: str = ""

    def outlooks(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """What the function says of each."""
        return [self.script(ask) for ask in asks]

    def renewed(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """What the function says by now."""
        return self.outlooks(asks)


def audit_draw(node: str, decision: DecisionKind, rate: float, seed: int) -> tuple[float, bool]:
    """(probability, drawn): whether something that was not to be measured is measured anyway. Anyone with the search's
    seed can repeat the draw."""
    probability = audit_probability(decision, rate)
    return probability, decision != "measure" and drawn(node, str(seed), probability)
