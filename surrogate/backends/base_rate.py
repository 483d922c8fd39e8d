"""`base-rate`: how often each bin came up so far. The control that every other forecaster has to beat."""

from __future__ import annotations

from ..contract import Answer, Query, Reply

NAME = "base-rate"


class BaseRate:
    """Gives every candidate the same reply (see `metrics.controls.base_rate`), whatever it is."""

    name = NAME

    def __init__(self, reply: Reply, *, stands_in_for: str = "") -> None:
        """stands_in_for: the forecaster that stepped aside, not being trained for this device; '' for none."""
        self._reply = reply
        self._stands_in_for = stands_in_for

    def forecast(self, query: Query) -> Answer:
        """The same reply for all."""
        aside = self._stands_in_for
        return Answer(
            forecaster=NAME,
            replies=(self._reply,) * len(query.candidates),
            problems=(f"{aside} is not trained for this device",) if aside else (),
            usd=0.0,
            tokens=0,
            not_trained=bool(aside),
        )
