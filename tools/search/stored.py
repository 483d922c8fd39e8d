"""`stored:NAME`: for replays, the forecasts that somebody once made of the recorded kernels, out of the same file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...store.errors import InputError
from ...store.models import Forecast, Task
from ...surrogate import density
from .forecasting import ForecastAsk, Outlook
from .replay import Pool

PREFIX = "stored:"


@dataclass(frozen=True)
class _Told:
    """One stored forecast, and the recorded time of the baseline it was about, microseconds."""

    forecast: Forecast
    baseline_us: float


class StoredForecaster:
    """Looks up what was said of a kernel, whichever baseline it was about: the recorded times of that baseline and of
    the anchor turn one ratio into the other. A kernel nobody forecast has no forecast, and is measured like any other.
    """

    inline = True
    costs = False
    renews = ""
    trained_on: frozenset[str] = frozenset()

    def __init__(self, pool: Pool, task: Task, name: str) -> None:
        """name: of the forecaster, e.g. `agent:some-model`. Raises InputError where it forecast nothing of the task."""
        self.name = PREFIX + name
        self._pool = pool
        self._told: dict[str, _Told] = {}
        for forecast in pool.forecasts:
            base = pool.recorded.get(forecast.baseline_id)
            known = None if base is None else base.measurement.time_us
            if forecast.forecaster == name and forecast.task_id == task.id and known is not None:
                self._told[forecast.kernel_id] = _Told(forecast, known)
        if not self._told:
            names = sorted({one.forecaster for one in pool.forecasts if one.task_id == task.id})
            step = f"The file holds forecasts of: {', '.join(names) or 'nobody'}."
            raise InputError("no stored forecast of this task by that name", value=name, next_step=step)

    def outlooks(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """The stored forecasts, against the anchor."""
        return [self._outlook(ask) for ask in asks]

    def renewed(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """The same: what was said is said."""
        return self.outlooks(asks)

    def _outlook(self, ask: ForecastAsk) -> Outlook:
        told, anchor = self._told.get(ask.kernel.id), self._pool.recorded.get(ask.anchor.id)
        if told is None or anchor is None or anchor.measurement.time_us is None:
            return Outlook(self.name, problem="it was not forecast", reason="Nobody forecast it.")
        shift = math.log2(anchor.measurement.time_us / told.baseline_us)
        forecast = told.forecast
        return Outlook(
            forecaster=self.name,
            p_correct=forecast.p_correct,
            log2_median=forecast.log2_median + shift,
            log2_p10=forecast.log2_p10 + shift,
            log2_p90=forecast.log2_p90 + shift,
            p_faster=1 - float(density.cdf(forecast.p_bins, -shift)[0]),
            reason="As it was forecast then.",
        )
