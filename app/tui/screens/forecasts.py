"""The page Forecasts."""

from __future__ import annotations

from ..page import Page


class ForecastsPage(Page):
    """Forecasts."""
