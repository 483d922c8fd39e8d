"""Plays a recording into a store at any speed: every event is appended as a worker would, and the rows it names appear
with it. Who watches the store sees searches that go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...bench.broker import processes_alive
from ...store import forecasts, kernels, measurements, searches, tasks
from ...store.clock import utc_now
from ...store.database import Store
from ...store.errors import KforecastError
from ...store.models import Kernel
from ..search.beginning import begin_search
from ..search.events import AnyEvent, Created, Finished, Forecasted, Measured, Proposed
from ..search.log import SearchLog
from .recording import Recording

HEAD_START = 6
"""Measurements of each search that are there from the beginning: a tree that somebody can look at."""
_WAIT_S = 0.05
_BEAT_S = 5.0
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


@dataclass(frozen=True)
class Timed:
    """An event, the number of its search, and when it is due, in seconds from the beginning at speed 1."""

    due: float
    search: int
    event: AnyEvent


def schedule(recording: Recording) -> list[Timed]:
    """All events in the order of playing. Each search takes the whole time; events that the search's own clock does not
    tell apart are spread evenly up to its next tick, so that something moves all the time."""
    timed: list[Timed] = []
    for number, (_, log) in enumerate(recording.searches):
        moments = _spread([event.clock for event in log])
        end = max(moments[-1], 1e-9)
        timed += [
            Timed(recording.seconds * moment / end, number, event) for moment, event in zip(moments, log, strict=True)
        ]
    return sorted(timed, key=lambda one: one.due)


def _spread(clocks: Sequence[float]) -> list[float]:
    """Moments that never stand still between two different clocks, and never run ahead of the next."""
    moments: list[float] = []
    start = 0
    while start < len(clocks):
        end = start
        while end < len(clocks) and clocks[end] <= clocks[start]:
            end += 1
        until = clocks[end] if end < len(clocks) else clocks[start]
        step = (until - clocks[start]) / (end - start)
        moments += [clocks[start] + step * place for place in range(end - start)]
        start = end
    return moments


class Player:
    """Plays in a thread of its own. Use as a context: leaving it stops the playing and waits for that.

    speed: 1 plays in `recording.seconds`. paused: stands still while true. Both may be set at any time.
    """

    def __init__(
        self,
        recording: Recording,
        path: Path,
        *,
        speed: float = 1.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """path: of the store, which `prepare` makes."""
        self.recording = recording
        self.speed = speed
        self.paused = False
        self.played = 0.0
        """Seconds of the recording that were played."""
        self.error: KforecastError | None = None
        """What ended the playing before its end; None: nothing did."""
        self._path = path
        self._sleep = sleep
        self._plan = schedule(recording)
        self._next = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-player", daemon=True)
        self._nouns = {kind: recording.of_kind(kind) for kind in ("kernel", "measurement", "forecast", "decision")}
        self._saved: set[str] = set()
        self._owner = processes_alive.owner_name("demo")

    @property
    def ended(self) -> bool:
        """Whether all was played."""
        return self._next >= len(self._plan)

    def prepare(self) -> str:
        """Make the store and play the head start; the id of the search to look at first."""
        with Store.open(self._path) as store:
            for kind, noun in self.recording.nouns:
                if kind == "task":
                    tasks.save(store, noun)  # type: ignore[arg-type]
            for search, log in self.recording.searches:
                first = log[0]
                assert isinstance(first, Created), "a recording is checked when it is read"
                seed = self._nouns["kernel"][search.seed_id]
                task = self.recording.of_kind("task")[search.task_id]
                begin_search(store, seed, task, first.config, search_id=search.id)
                searches.take_lease(store, search.id, self._owner, lambda owner: False, stale_before=utc_now())
            self._play_head(store)
        return max(self.recording.searches, key=lambda one: len(one[1]))[0].id

    def _play_head(self, store: Store) -> None:
        """Play until each search has its head start, one transaction a search: nobody watches yet."""
        seen = [0] * len(self.recording.searches)
        heads: list[list[AnyEvent]] = [[] for _ in seen]
        while self._next < len(self._plan) and min(seen) < HEAD_START:
            timed = self._plan[self._next]
            self._next += 1
            self.played = timed.due
            heads[timed.search].append(timed.event)
            seen[timed.search] += isinstance(timed.event, Measured | Finished)
        for log, head in zip(self._logs(store), heads, strict=True):
            self._append(store, log, head)

    def start(self) -> None:
        """Begin to play what `prepare` has left."""
        self._thread.start()

    def stop(self) -> None:
        """Stop playing, and wait until it has stopped."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def run(self) -> None:
        """Play to the end, or until `stop`, in the caller's thread."""
        self._run()

    def __enter__(self) -> Player:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _logs(self, store: Store) -> list[SearchLog]:
        return [SearchLog(store, search.id, self._owner) for search, _ in self.recording.searches]

    def _run(self) -> None:
        try:
            with Store.open(self._path) as store:
                logs = self._logs(store)
                beaten = before = time.monotonic()
                while not self._stop.is_set() and not self.ended:
                    self._sleep(_WAIT_S)
                    now = time.monotonic()
                    if not self.paused:
                        self.played += (now - before) * self.speed
                    before = now
                    while not self.ended and self._plan[self._next].due <= self.played and not self._stop.is_set():
                        self._play(store, logs, self._plan[self._next])
                    if now - beaten > _BEAT_S:
                        beaten = now
                        for log in logs:
                            searches.beat(store, log.state.search_id, self._owner)
                for log in logs:
                    searches.drop_lease(store, log.state.search_id, self._owner)
        except KforecastError as error:
            self.error = error

    def _play(self, store: Store, logs: list[SearchLog], timed: Timed) -> None:
        """Append one event, with the rows it names."""
        self._next += 1
        self.played = max(self.played, timed.due)
        self._append(store, logs[timed.search], [timed.event])

    def _append(self, store: Store, log: SearchLog, events: Sequence[AnyEvent]) -> None:
        new: list[Kernel] = []
        rest = [event for event in events if not isinstance(event, Created)]
        for event in rest:
            if isinstance(event, Proposed):
                new.append(self._nouns["kernel"][event.kernel_id])
            elif isinstance(event, Measured):
                self._save_measurement(store, event.measurement_id)
            elif isinstance(event, Forecasted):
                self._save_forecast(store, event.forecast_id)
        if rest:
            log.append(rest, new_kernels=new)

    def _save_measurement(self, store: Store, id_: str | None) -> None:
        found = None if id_ is None else self._nouns["measurement"].get(id_)
        if found is None or found.id in self._saved:
            return
        self._saved.add(found.id)
        for kernel_id in (found.kernel_id, found.baseline_id):
            self._save_kernel(store, kernel_id)
        measurements.save(store, found.model_copy(update={"created_at": utc_now(), "request_id": None}))

    def _save_forecast(self, store: Store, id_: str | None) -> None:
        found = None if id_ is None else self._nouns["forecast"].get(id_)
        if found is None or found.id in self._saved:
            return
        self._saved.add(found.id)
        for kernel_id in (found.kernel_id, found.baseline_id):
            self._save_kernel(store, kernel_id)
        decided: list[Any] = [one for one in self._nouns["decision"].values() if one.forecast_id == found.id]
        now = utc_now()
        forecasts.save(store, found.model_copy(update={"created_at": now}))
        for one in decided:
            forecasts.save_decision(store, one.model_copy(update={"created_at": now}))

    def _save_kernel(self, store: Store, kernel_id: str | None) -> None:
        if kernel_id is not None and kernel_id in self._nouns["kernel"]:
            kernels.save(store, self._nouns["kernel"][kernel_id])
