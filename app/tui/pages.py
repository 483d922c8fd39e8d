"""The pages there are, in the order of their tabs. Their modules are loaded when the app is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from .page import Page


@dataclass(frozen=True)
class Entry:
    """name: of the mode; title: on the tab; module, cls: where the page is."""

    name: str
    title: str
    module: str
    cls: str

    def maker(self) -> Callable[[], Page]:
        """What makes the page, once it is wanted."""

        def make() -> Page:
            page: Page = getattr(import_module(f".screens.{self.module}", __package__), self.cls)()
            return page

        return make


PAGES: tuple[Entry, ...] = (
    Entry("searches", "Searches", "searches", "SearchesPage"),
    Entry("search", "Search", "search", "SearchPage"),
    Entry("forecasts", "Forecasts", "forecasts", "ForecastsPage"),
    Entry("kernels", "Kernels", "kernels", "KernelsPage"),
    Entry("device", "Device", "device", "DevicePage"),
)
