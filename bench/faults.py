"""How a lane tells that a kernel, not the machinery, failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # processes that start on the path of a measurement, and know no kernel, import this
    from ..store.models import Mismatch, Verdict


class KernelFault(Exception):
    """The kernel earned a verdict other than `ok` by what it did: crashed, hung, wrote where it must not.

    Never leaves the bench room: `bench.measuring` turns it into a Measurement. A failure of the machinery is a
    DeviceError.
    """

    def __init__(
        self, verdict: Verdict, reason: str, diagnostics: str = "", *, mismatch: Mismatch | None = None
    ) -> None:
        super().__init__(reason)
        self.mismatch = mismatch
        self.verdict: Verdict = verdict
        self.reason = reason
        self.diagnostics = diagnostics


class Cancelled(Exception):
    """Nobody wants this measurement any more: give the device back now."""
