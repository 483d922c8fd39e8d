"""The product's own forecasts in a search: what `kforecast forecast` says, renewed as the search learns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...store import forecasts
from ...store.database import Store
from ...store.errors import InputError, KforecastError
from ...store.models import Kernel, Task
from ...surrogate import density
from ...surrogate.contract import MOST_CANDIDATES
from ..backends import LITELLM, ConsentNeeded
from ..forecast import forecast_many
from ..forecast_results import ForecastResult
from ..learned import model_for
from ..measured import NAME as MEASURED
from ..places import place_of
from .forecasting import ForecastAsk, Outlook
from .learning import Learning, compiled_facts

_LEARNED = "learned"


@dataclass
class ProductForecaster:
    """The use case `forecast`: facts, siblings, calibration, promise and audit of this machine's store.

    backend: as `tools.forecast.forecast` takes it; None: the best there is. Where that is `learned`, its forecasts are
    renewed from all that the search measures. task, seed: what is searched, and from where.
    """

    store: Store
    task: Task
    seed: Kernel
    device: str
    backend: str | None = None
    name: str = "forecast"
    inline: bool = False
    costs: bool = False
    trained_on: frozenset[str] = frozenset()
    renews: str = ""

    def __post_init__(self) -> None:
        self.name = self.backend or self.name
        self.costs = self.backend is not None and self.backend.startswith(LITELLM)
        self._learning: Learning | None = None
        if self.backend in (None, _LEARNED):
            place = place_of(self.device, self.store)
            model = model_for(self.store, [self.seed.language], place.kind)
            if model is not None:
                self._learning = Learning(model, compiled_facts(self.task, place.arch), _LEARNED)
                self.renews = _LEARNED

    def outlooks(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """The forecasts, calibrated, with their decisions; saved in the store."""
        found: dict[str, Outlook] = {}
        groups: dict[tuple[str, str], list[ForecastAsk]] = {}
        for ask in asks:
            groups.setdefault((ask.anchor.id, "" if ask.own is None else ask.own.forecaster), []).append(ask)
        for group in groups.values():
            for start in range(0, len(group), MOST_CANDIDATES):
                found |= self._asked(group[start : start + MOST_CANDIDATES])
        return [found[ask.node] for ask in asks]

    def renewed(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """What the measurements of this search say by now, where `learned` forecasts."""
        assert self._learning is not None, "who renews nothing is not asked to"
        return self._learning.outlooks(asks)

    def _asked(self, asks: Sequence[ForecastAsk]) -> dict[str, Outlook]:
        """By node, of asks with one anchor; all of them or none with their author's own numbers."""
        own = [
            {"p_correct": ask.own.p_correct, "p_bins": list(ask.own.p_bins), "forecaster": ask.own.forecaster}
            for ask in asks
            if ask.own is not None
        ]
        try:
            results = forecast_many(
                [ask.kernel.id for ask in asks],
                baseline=asks[0].anchor.id,
                device=asks[0].device,
                own=own or None,
                backend=None if own else self.backend,
                store=self.store,
            )
        except ConsentNeeded:
            raise
        except InputError as error:
            if own:  # an author's numbers are unfit: then what would be said without them
                return self._without_own(asks, error)
            return {ask.node: self._impossible(error) for ask in asks}
        found: dict[str, Outlook] = {}
        for ask, result in zip(asks, results, strict=True):
            if isinstance(result, ForecastResult):
                found[ask.node] = self._outlook(result)
            elif not isinstance(result, InputError):
                raise result
            elif own:  # the pair was measured meanwhile
                found |= self._without_own([ask], result)
            else:
                found[ask.node] = self._impossible(result)
        return found

    def _without_own(self, asks: Sequence[ForecastAsk], error: InputError) -> dict[str, Outlook]:
        found = self._asked([replace(ask, own=None) for ask in asks])
        return {node: replace(outlook, problem=str(error)) for node, outlook in found.items()}

    def _impossible(self, error: KforecastError) -> Outlook:
        """Of a launch that no device can make, say: what is wrong is the candidate."""
        why = f"It cannot run: {error.what}."
        return Outlook(self.name, decision="drop", answer="slower", reason=why, final=True, problem=str(error))

    def _outlook(self, result: ForecastResult) -> Outlook:
        made = [] if result.forecast_id is None else forecasts.decisions(self.store, result.forecast_id, limit=1)
        compiles = result.compile is None or result.compile.ok
        return Outlook(
            forecaster=result.backend,
            p_correct=result.p_correct,
            log2_median=_log2(result.speedup_median),
            log2_p10=_end(result, result.speedup_p10, 0.1),
            log2_p90=_end(result, result.speedup_p90, 0.9),
            p_faster=result.p_faster,
            # What was measured elsewhere is no measurement of this search, which only its own can make the best.
            decision="measure" if result.backend == MEASURED and result.decision == "trust" else result.decision,
            answer=result.answer,
            reason=result.reason,
            final=not compiles or (result.p_correct is None and result.decision == "drop"),
            # The draw that the record of this forecaster counts by, not another one.
            audited=made[0].audited if made else None,
            probability=1.0 if not made else made[0].audit_probability or 1.0,
            forecast_id=result.forecast_id,
            usd=result.cost_usd or 0.0,
        )


def _end(result: ForecastResult, told: float | None, level: float) -> float | None:
    """An end of the 80% interval, where that is open the quantile that the bins have when they end an octave on."""
    if told is not None or result.p_bins is None:
        return _log2(told)
    return float(density.quantile(result.p_bins, level)[0])


def _log2(ratio: float | None) -> float | None:
    return None if ratio is None or ratio <= 0 else math.log2(ratio)
