"""Helper processes of a GPU that start before there is a lane: the oracle's start is the longest part of a first
measurement, and what a lane imports takes a quarter of a second itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...turns import Turns
from .device import device_facts, require_packages
from .helpers import Helper, Launchers

if TYPE_CHECKING:
    from ...lane import Lane
    from .lane import CudaLane


class StartedAhead:
    """An oracle and a launcher, as the lane of `cuda:ordinal` would start them for itself.

    sharers: how many processes measure on the device beside each other, this one included; turns: those that the lane
    has to take then, None where it is alone. To be made in a thread that outlives the processes: they are killed with
    it (`die_with_parent`). Raises DeviceError where the machine lacks the device or packages for it.
    """

    def __init__(self, ordinal: int, sharers: int) -> None:
        facts = device_facts(ordinal)
        require_packages()
        self.turns = Turns(facts.uuid) if sharers > 1 else None
        self._lane: CudaLane | None = None
        self._oracle = Helper("oracle", ordinal, self.turns, sharers)
        self._launchers = Launchers(ordinal, facts.uuid, self._trusted_cubin, self.turns)

    def hand_over(self, lane: Lane) -> None:
        """Let the device's lane use and end them. To be called once, before the lane starts anything."""
        from .lane import CudaLane

        assert isinstance(lane, CudaLane)
        self._lane = lane
        lane.adopt(self._oracle, self._launchers)

    def close(self) -> None:
        """End the processes, where no lane has them."""
        if self._lane is None:
            self._launchers.close()
            self._oracle.close()

    def _trusted_cubin(self) -> Path:
        assert self._lane is not None, "nobody asks before the lane has them"
        return self._lane.trusted_cubin
