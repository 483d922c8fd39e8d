"""Whether a measurement fell where it had been forecast."""

from __future__ import annotations

from ..store.database import Store
from ..store.models import Measurement
from ..store.verified import before

TOLD = {"log2_p10": 0.1, "log2_median": 0.5, "log2_p90": 0.9}
"""The ends and the middle of the interval as it was told, calibrated, among a decision's numbers."""


def forecast_hit(store: Store, measurement: Measurement) -> bool | None:
    """Whether the newest earlier forecast of a measurement's pair held S in its 80% interval; None without either.

    An interval that ends in an open bin has no end there (see `density.opened`)."""
    earlier = None if measurement.log2_speedup is None else before(store, measurement)
    if earlier is None or measurement.log2_speedup is None:
        return None
    from ..surrogate.density import opened

    told = {"log2_p10": earlier.forecast.log2_p10, "log2_p90": earlier.forecast.log2_p90}
    told |= {} if earlier.decision is None else earlier.decision.numbers
    low, high = opened(told["log2_p10"], told["log2_p90"])
    return bool(low <= measurement.log2_speedup <= high)
