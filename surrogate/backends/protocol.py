"""What a forecaster is to the rest of kforecast, and how one fails."""

from __future__ import annotations

from typing import Protocol

from ...store.errors import DeviceError
from ..contract import Answer, Query


class Backend(Protocol):
    """A forecaster. `name` is what its track record and calibration are kept under."""

    @property
    def name(self) -> str: ...

    def forecast(self, query: Query) -> Answer:
        """A reply, or the reason for none, for each candidate. Raises ForecasterError when it cannot be asked."""
        ...


class ForecasterError(DeviceError):
    """A forecaster could not be asked: unreachable, refused by its provider, over budget. Never its answer."""
