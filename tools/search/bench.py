"""What the engine asks of a device, and the live devices behind their brokers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from ...bench.broker import client
from ...bench.broker.payload import MeasurePayload
from ...bench.broker.protocol import fingerprint
from ...store import measurements, requests
from ...store.database import Store
from ...store.errors import DeviceError
from ...store.models import Effort, Request, Verdict
from ..measure import CALL_DEADLINE_S, as_error
from .events import Purpose


@dataclass(frozen=True)
class Job:
    """One measurement to be made. try_: how often the machinery failed on it before."""

    search_id: str
    node: str
    kernel_id: str
    baseline_id: str | None
    device: str
    effort: Effort
    purpose: Purpose
    try_: int = 0


@dataclass(frozen=True)
class Outcome:
    """What came of a job. log2 S against the job's baseline; seconds: GPU seconds of this measurement alone.

    lost_seconds: what is charged for attempts that did not come to an end.
    """

    verdict: Verdict
    log2: float | None = None
    log2_low: float | None = None
    log2_high: float | None = None
    seconds: float = 0.0
    time_us: float | None = None
    percent_of_floor: float | None = None
    censored: bool = False
    quarantined: bool = False
    detail: str = ""
    measurement_id: str | None = None
    attempts: int = 1
    lost_seconds: float = 0.0


_SLICE_S = 1.0


class CalledOff(Exception):
    """The measurement was cancelled, by this search or by somebody else."""


class Bench(Protocol):
    """A device as a search uses it."""

    virtual: bool
    """Measurements end in virtual time: at their recorded GPU seconds, one after the other."""

    async def measure(self, job: Job) -> Outcome:
        """Measure. The same job asked for again is the same measurement: its answer may be there already.

        Raises CalledOff, or DeviceError where the machinery failed.
        """
        ...

    def call_off(self, job: Job) -> None:
        """Cancel a job in flight."""
        ...

    def close(self) -> None:
        """Let go of what is in flight, without ending it."""
        ...


class LiveBench:
    """Measurements through the device's broker. Their request keys name search, node and effort, so whoever takes a
    search up again finds the requests of the worker before him, finished ones included."""

    virtual = False

    def __init__(self, store: Store) -> None:
        self._store = store
        self._closed = False

    def close(self) -> None:
        """Wait for nothing any more; requests in flight go on without us."""
        self._closed = True

    async def measure(self, job: Job) -> Outcome:
        """As the protocol says; the answer's row is the store's."""
        return await asyncio.to_thread(self._measure, job)

    def call_off(self, job: Job) -> None:
        """Cancel the job's request, if it was asked for."""
        for row in requests.unfinished(self._store, device=job.device):
            if row.request_key is not None and row.request_key.startswith(f"{_key(job)}:"):
                client.cancel(self._store, row)

    def _measure(self, job: Job) -> Outcome:
        payload = MeasurePayload(
            kernel_id=job.kernel_id,
            baseline_id=job.baseline_id,
            baseline_because="the search's seed" if job.purpose == "verify" else "an ancestor whose S is known well",
            effort=job.effort,
            call_deadline_s=CALL_DEADLINE_S,
            detached=True,
            broker=fingerprint(),
        ).model_dump(mode="json")
        ended = self._ended(job, payload)
        if ended.state == "cancelled":
            raise CalledOff(job.node)
        if ended.state == "failed":
            raise as_error(ended)
        assert ended.result_id is not None
        found = measurements.get(self._store, ended.result_id)
        assert found is not None, "an answer and its request are one transaction"
        lost = max(0, ended.attempts - 1)
        return Outcome(
            verdict=found.verdict,
            log2=found.log2_speedup,
            log2_low=found.log2_low,
            log2_high=found.log2_high,
            seconds=found.device_seconds,
            time_us=found.time_us,
            percent_of_floor=found.percent_of_floor,
            censored=found.censored,
            quarantined=found.quarantine is not None,
            detail=_detail(found.reason, found.diagnostics),
            measurement_id=found.id,
            attempts=ended.attempts,
            lost_seconds=lost * found.device_seconds,
        )

    def _ended(self, job: Job, payload: dict[str, object]) -> Request:
        """The request at its end. One that was cancelled by an earlier worker is asked for anew."""
        for round_ in range(1000):
            request = requests.enqueue(
                self._store,
                device=job.device,
                payload=payload,
                client=f"search:{job.search_id}",
                request_key=f"{_key(job)}:{round_}",
            )
            if request.state == "cancelled":
                continue
            while request.state in ("queued", "working") and not self._closed:
                request = client.wait(self._store, request, wait_s=_SLICE_S, on_progress=lambda text: None)
            if self._closed:
                raise CalledOff(job.node)
            return request
        raise DeviceError(
            "a measurement was cancelled a thousand times", value=job.node, next_step="Start a new search."
        )


def _key(job: Job) -> str:
    return f"{job.search_id}:{job.node}:{job.effort}:{job.purpose}:{job.try_}"


def _detail(reason: str, diagnostics: str) -> str:
    lines = [line for line in (reason, *diagnostics.splitlines()) if line.strip()]
    return " ".join(lines[:3])[:300]
