"""What a request carries. Apart from the code that works on it: who only asks need not load that."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from ...store.models import Effort


class MeasurePayload(BaseModel):
    """What a `measure` request carries: ids of rows that are in the store already.

    call_deadline_s: seconds one call of the kernel may take; time_cap_s: seconds of sampling, None for the effort's.
    detached: goes on when the client that asked vanishes. profile: look inside the candidate with hardware counters.
    broker: the fingerprint (`protocol`) of the broker that the client would start, "" where any will do; one of another
    code or environment leaves the request to it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kernel_id: str
    baseline_id: str | None
    baseline_because: str = ""
    effort: Effort = "normal"
    call_deadline_s: float = 10.0
    time_cap_s: float | None = None
    detached: bool = False
    profile: bool = False
    broker: str = ""
