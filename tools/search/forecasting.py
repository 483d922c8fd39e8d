"""What the engine asks of a forecaster, the base rate that needs nobody, and the product's own forecasts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from ...store import forecasts
from ...store.database import Store
from ...store.errors import InputError
from ...store.models import DecisionKind, Kernel
from ...surrogate.calibration.audit import audit_probability, drawn
from ...surrogate.contract import Sibling
from ..backends import ConsentNeeded
from ..forecast import forecast
from .events import OwnForecast


@dataclass(frozen=True)
class ForecastAsk:
    """One candidate against its anchor, the nearest measured ancestor. own: what its author said of it."""

    node: str
    kernel: Kernel
    anchor: Kernel
    device: str
    own: OwnForecast | None = None
    anchor_us: float | None = None
    siblings: tuple[Sibling, ...] = ()
    """What this search has measured, newest first; only for forecasters that want it from the search."""


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
    trained_on: frozenset[str]
    """Names of the tasks it has seen measured: a replay of one of them would be a leak."""
    wants_siblings: bool

    def outlook(self, ask: ForecastAsk) -> Outlook:
        """The forecast of one candidate. Raises KforecastError where the forecaster cannot be asked."""
        ...


class BaseRateForecaster:
    """Says the same of every candidate; what is the same program as its anchor is a tie."""

    name = "base-rate"
    inline = True
    costs = False
    trained_on: frozenset[str] = frozenset()
    wants_siblings = False

    def outlook(self, ask: ForecastAsk) -> Outlook:
        """A wide distribution a little below 1: most changes help little or hurt."""
        return Outlook(self.name, 0.75, -0.1, -1.0, 0.5, reason="The base rate says nothing of one candidate.")


@dataclass
class ScriptedForecaster:
    """Answers by a function: for tests, replays of stored forecasts, and controls."""

    script: Callable[[ForecastAsk], Outlook]
    name: str = "scripted"
    inline: bool = True
    costs: bool = False
    trained_on: frozenset[str] = frozenset()
    wants_siblings: bool = False

    def outlook(self, ask: ForecastAsk) -> Outlook:
        """What the function says."""
        return self.script(ask)


@dataclass
class ProductForecaster:
    """The use case `forecast`: facts, siblings, calibration, promise and audit of this machine's store.

    backend: as `tools.forecast.forecast` takes it; None: the best there is.
    """

    store: Store
    backend: str | None = None
    name: str = "forecast"
    inline: bool = False
    costs: bool = False
    trained_on: frozenset[str] = frozenset()
    wants_siblings: bool = False

    def __post_init__(self) -> None:
        self.name = self.backend or self.name
        self.costs = self.backend is not None and self.backend.startswith("litellm:")

    def outlook(self, ask: ForecastAsk) -> Outlook:
        """The forecast, calibrated, with its decision; saved in the store."""
        own = None
        if ask.own is not None:
            own = {
                "p_correct": ask.own.p_correct,
                "p_bins": list(ask.own.p_bins),
                "forecaster": ask.own.forecaster,
            }
        try:
            result = forecast(
                ask.kernel.id,
                baseline=ask.anchor.id,
                device=ask.device,
                own=own,
                backend=None if own else self.backend,
                store=self.store,
            )
        except ConsentNeeded:
            raise
        except InputError as error:
            if ask.own is not None:  # its author's numbers are unfit, or the pair was measured meanwhile
                return replace(self.outlook(replace(ask, own=None)), problem=str(error))
            # A launch that no device can make, say: what is wrong is the candidate.
            why = f"It cannot run: {error.what}."
            return Outlook(self.name, decision="drop", answer="slower", reason=why, final=True, problem=str(error))
        assert not isinstance(result, list), "one candidate has one result"
        made = [] if result.forecast_id is None else forecasts.decisions(self.store, result.forecast_id, limit=1)
        compiles = result.compile is None or result.compile.ok
        return Outlook(
            forecaster=result.backend,
            p_correct=result.p_correct,
            log2_median=_log2(result.speedup_median),
            log2_p10=_log2(result.speedup_p10),
            log2_p90=_log2(result.speedup_p90),
            p_faster=result.p_faster,
            decision=result.decision,
            answer=result.answer,
            reason=result.reason,
            final=not compiles or (result.p_correct is None and result.decision == "drop"),
            # The draw that the record of this forecaster counts by, not another one.
            audited=made[0].audited if made else None,
            probability=1.0 if not made else made[0].audit_probability or 1.0,
            forecast_id=result.forecast_id,
            usd=result.cost_usd or 0.0,
        )


def audit_draw(node: str, decision: DecisionKind, rate: float, seed: int) -> tuple[float, bool]:
    """(probability, drawn): whether something that was not to be measured is measured anyway. Anyone with the search's
    seed can repeat the draw."""
    probability = audit_probability(decision, rate)
    return probability, decision != "measure" and drawn(node, str(seed), probability)


def _log2(ratio: float | None) -> float | None:
    return None if ratio is None or ratio <= 0 else math.log2(ratio)
