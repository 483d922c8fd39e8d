"""kforecast: calibrated forecasts of GPU kernel speed, and measurements that are hard to fool.

The public API. Everything loads on first use: `import kforecast` itself imports nothing outside the standard library.

>>> import kforecast
>>> result = kforecast.measure("softmax.c", baseline="seed")  # doctest: +SKIP
>>> result.verdict, result.comparison, result.speedup  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .store.errors import DeviceError, InputError, KforecastError, StoreError, UnsupportedError
    from .store.models import (
        Case,
        CaseResult,
        Decision,
        Facts,
        Forecast,
        Kernel,
        Launch,
        Measurement,
        Mismatch,
        Precision,
        Request,
        Task,
        Tensor,
    )
    from .tools.forecast import forecast
    from .tools.forecast_results import ForecastResult
    from .tools.measure import measure, measure_many
    from .tools.results import MeasureResult
    from .tools.search.results import SearchResult
    from .tools.search.use import search

__version__ = "0.1.0"

__all__ = [
    "Case",
    "CaseResult",
    "Decision",
    "DeviceError",
    "Facts",
    "Forecast",
    "ForecastResult",
    "InputError",
    "Kernel",
    "KforecastError",
    "Launch",
    "MeasureResult",
    "Measurement",
    "Mismatch",
    "Precision",
    "Request",
    "SearchResult",
    "StoreError",
    "Task",
    "Tensor",
    "UnsupportedError",
    "__version__",
    "forecast",
    "measure",
    "measure_many",
    "search",
]

_ERRORS = ("DeviceError", "InputError", "KforecastError", "StoreError", "UnsupportedError")
_TOOLS = {
    "ForecastResult": ".tools.forecast_results",
    "MeasureResult": ".tools.results",
    "forecast": ".tools.forecast",
    "measure": ".tools.measure",
    "measure_many": ".tools.measure",
    "search": ".tools.search.use",
    "SearchResult": ".tools.search.results",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _TOOLS.get(name) or (".store.errors" if name in _ERRORS else ".store.models")
    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
