"""What goes on in the store and on the devices, as it comes: each change once, and the present as a whole.

Reads only. Whatever becomes of the store while it is followed (locked, deleted, replaced, newer than this kforecast) is
a change like any other, told once, and looked at again until it is well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from ..store import forecasts, searches
from ..store.clock import utc_now
from ..store.database import Store
from ..store.errors import StoreError
from ..store.faults import StoreLocked
from ..store.feed import Feed, FeedState
from ..store.models import DecisionKind, Forecast, Measurement, Request
from ..store.searches import Search, SearchState
from ..store.tasks import get as task_of
from .hits import TOLD
from .search.process import is_worked_on
from .status import (
    Holder,
    MeasurementLine,
    RequestLine,
    Status,
    holders,
    kernel_name,
    measurement_line,
    request_line,
    status_of,
)

_TABLES = ("requests", "measurements", "forecasts", "searches")
_MOST_FOUND = 1000
"""Rows of a table in one poll; what is more comes with the next."""
_POLL_TIMEOUT_S = 0.5


class ForecastLine(BaseModel):
    """One forecast in short, as it was told. speedup: the median of S, given that the kernel is correct; low, high: the
    80% interval; None: open there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    forecast_id: str
    kernel_id: str
    name: str
    task: str
    device: str
    forecaster: str
    p_correct: float
    speedup: float
    low: float | None
    high: float | None
    decision: DecisionKind | None
    created_at: str


class SearchLine(BaseModel):
    """One search in short. worked_on: whether a living process works on it; best: S of its best measured kernel."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    search_id: str
    task: str
    device: str
    state: SearchState
    worked_on: bool
    best: float | None
    measured: int
    proposed: int
    policy: str
    updated_at: str


class StoreLine(BaseModel):
    """What became of the store: `open`, or why it cannot be read now."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    state: Literal["open", "locked", "missing", "replaced", "unreadable"]
    message: str


class DeviceLine(BaseModel):
    """A device that was taken, or given back: then without a holder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: str
    holder: Holder | None


class Present(Status):
    """The present, newest first: a status with the last forecasts and searches."""

    forecasts: tuple[ForecastLine, ...] = ()
    searches: tuple[SearchLine, ...] = ()


Line = StoreLine | DeviceLine | RequestLine | MeasurementLine | ForecastLine | SearchLine
ChangeKind = Literal["store", "device", "request", "measurement", "forecast", "search"]


class Change(BaseModel):
    """One thing that changed. at: when it was seen or, of a row, happened; UTC text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: str
    kind: ChangeKind
    line: Line

    def flat(self) -> dict[str, Any]:
        """The change as one plain object: `at`, `kind`, and the line's fields."""
        return {"at": self.at, "kind": self.kind, **self.line.model_dump(mode="json")}


class Follower:
    """Follows a store and the devices. For one thread; nothing that a store's fate can bring about is raised."""

    def __init__(self, path: Path | None = None, *, task: str | None = None, device: str | None = None) -> None:
        """path: None is the user's store. task, device: follow only these."""
        self._task, self._device = task, device
        self._given = path
        self._feed = self._fresh()
        self._store_state: str = ""
        self._held: dict[str, Holder] = {}
        self._searches: dict[str, SearchLine] = {}
        self._requests: dict[str, str] = {}
        self._was_open = False

    def _fresh(self) -> Feed:
        return Feed(self._given, tables=_TABLES, from_now=True, page=_MOST_FOUND, timeout_s=_POLL_TIMEOUT_S)

    @property
    def path(self) -> Path:
        """The store's file."""
        return self._feed.path

    def poll(self) -> list[Change]:
        """What changed since the last poll, in order; the first one says what the store and the devices are in."""
        try:
            found = self._feed.poll()
            rows = self._rows(found.rows)
            state, message = found.state, found.message
        except StoreError as error:
            rows, message = [], str(error)
            state = "locked" if isinstance(error, StoreLocked) else "unreadable"
        return [*self._store_changes(state, message), *self._device_changes(), *rows]

    def present(self, limit: int = 10) -> Present | None:
        """The present as of now; None while the store cannot be read."""
        store = self._feed.store
        if store is None:
            return None
        try:
            with store.snapshot():
                now = status_of(store, limit=limit, task=self._task, device=self._device)
                said = self._last_forecasts(store, limit)
                going = [one for one in searches.recent(store, 4 * limit) if self._fits(one.task_name, one.device)]
                return Present(
                    **dict(now),
                    forecasts=tuple(forecast_line(store, one) for one in said),
                    searches=tuple(search_line(store, one) for one in going[:limit]),
                )
        except StoreError:
            return None

    def close(self) -> None:
        """Let go of the store."""
        self._feed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _store_changes(self, state: FeedState, message: str) -> list[Change]:
        now = "open" if state in ("changed", "same") else state
        self._was_open = self._was_open or now == "open"
        if now not in ("open", "locked") and self._was_open:
            # What will stand there then has a past of its own, which is no news. A feed takes it for news.
            self._feed.close()
            self._feed = self._fresh()
        if now == self._store_state:
            return []
        self._store_state = now
        line = StoreLine.model_validate({"path": str(self.path), "state": now, "message": message})
        return [Change(at=utc_now(), kind="store", line=line)]

    def _device_changes(self) -> list[Change]:
        held = {one.device: one for one in holders() if one.device and self._device in (None, one.device)}
        changes = []
        for device in sorted(held.keys() | self._held.keys()):
            holder = held.get(device)
            if holder != self._held.get(device):
                line = DeviceLine(device=device, holder=holder)
                at = holder.since if holder is not None and holder.since else utc_now()
                changes.append(Change(at=at, kind="device", line=line))
        self._held = held
        return changes

    def _rows(self, rows: dict[str, tuple[Any, ...]]) -> list[Change]:
        store = self._feed.store
        if not rows or store is None:
            return []
        changes: list[Change] = []
        for request in rows.get("requests", ()):
            changes += self._request(store, request)
        for measurement in rows.get("measurements", ()):
            changes += self._measurement(store, measurement)
        for forecast in rows.get("forecasts", ()):
            changes += self._forecast(store, forecast)
        for search in rows.get("searches", ()):
            changes += self._search(store, search)
        return sorted(changes, key=lambda change: change.at)

    def _request(self, store: Store, request: Request) -> list[Change]:
        """What it says of its progress is no news; its state is."""
        moved = self._requests.get(request.id) != request.state
        if request.state in ("queued", "working"):
            self._requests[request.id] = request.state
        else:
            self._requests.pop(request.id, None)
        if not moved or not self._fits(self._task, request.device):
            return []
        at = request.finished_at or request.started_at or request.created_at
        return [Change(at=at, kind="request", line=request_line(store, request))]

    def _measurement(self, store: Store, found: Measurement) -> list[Change]:
        if not self._fits(found.task_name, found.device):
            return []
        return [Change(at=found.created_at, kind="measurement", line=measurement_line(store, found))]

    def _forecast(self, store: Store, found: Forecast) -> list[Change]:
        line = forecast_line(store, found)
        if not self._fits(line.task, line.device):
            return []
        return [Change(at=found.created_at, kind="forecast", line=line)]

    def _search(self, store: Store, found: Search) -> list[Change]:
        """Not every event of a search is news: its state, its best and whether it is worked on are."""
        if not self._fits(found.task_name, found.device):
            return []
        line = search_line(store, found)
        before = self._searches.get(found.id)
        self._searches[found.id] = line
        same = before is not None and (before.state, before.best, before.worked_on) == (
            line.state,
            line.best,
            line.worked_on,
        )
        return [] if same else [Change(at=found.updated_at, kind="search", line=line)]

    def _fits(self, task: str | None, device: str) -> bool:
        return self._task in (None, task) and self._device in (None, device)

    def _last_forecasts(self, store: Store, limit: int) -> Sequence[Forecast]:
        task_id = None
        if self._task is not None:
            row = store.read_one("SELECT id FROM tasks WHERE ? IN (id, name) ORDER BY seq DESC", (self._task,))
            if row is None:
                return ()
            task_id = str(row["id"])
        return forecasts.find(store, task_id=task_id, device=self._device, limit=limit)


def forecast_line(store: Store, forecast: Forecast) -> ForecastLine:
    """A forecast in short."""
    from ..surrogate.density import opened

    task = task_of(store, forecast.task_id)
    decided = forecasts.decisions(store, forecast.id, limit=1)
    told = {name: getattr(forecast, name) for name in TOLD}
    told |= {name: decided[0].numbers[name] for name in TOLD if decided and name in decided[0].numbers}
    low, high = map(float, opened(told["log2_p10"], told["log2_p90"]))
    return ForecastLine(
        forecast_id=forecast.id,
        kernel_id=forecast.kernel_id,
        name=kernel_name(store, forecast.kernel_id),
        task=forecast.task_id if task is None else task.name,
        device=forecast.device,
        forecaster=forecast.forecaster,
        p_correct=forecast.p_correct,
        speedup=2.0 ** told["log2_median"],
        low=2.0**low if math.isfinite(low) else None,
        high=2.0**high if math.isfinite(high) else None,
        decision=decided[0].kind if decided else None,
        created_at=forecast.created_at,
    )


def search_line(store: Store, search: Search) -> SearchLine:
    """A search in short."""
    return SearchLine(
        search_id=search.id,
        task=search.task_name,
        device=search.device,
        state=search.state,
        worked_on=search.state in ("working", "stopping", "input_required") and is_worked_on(store, search.id),
        best=None if search.best_log2 is None else 2.0**search.best_log2,
        measured=search.counts.get("measured", 0),
        proposed=search.counts.get("proposed", 0),
        policy=search.policy,
        updated_at=search.updated_at,
    )
