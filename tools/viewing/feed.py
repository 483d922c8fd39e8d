"""The feed: forecasts and measurements that agents, people and CI ask for one by one, outside searches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from ...store import pages
from ...store.database import Store

MOST = 500
"""Entries kept."""
_FIRST_LOOK = 1000
"""Rows of each table that the first look goes back."""


@dataclass(frozen=True)
class FeedEntry:
    """One forecast or measurement. who: the client, or the forecaster; search: the search that asked for it, or None.

    log2 values are octaves of S against the baseline: measured with its interval, or the forecast's median and 80%
    interval. outcome: verdict or comparison, or what was decided.
    """

    id: str
    kind: Literal["forecast", "measurement"]
    created_at: str
    kernel: str
    kernel_id: str
    task: str
    device: str
    who: str
    search: str | None
    outcome: str
    log2: float | None
    low: float | None
    high: float | None
    p_correct: float | None
    time_us: float | None
    quarantined: bool


class Feed:
    """The newest entries. For one thread; a store that was not seen before starts anew."""

    def __init__(self) -> None:
        self._store: Store | None = None
        self._seen = (0, 0)
        self._entries: dict[str, FeedEntry] = {}

    def look(self, store: Store, *, searches_too: bool = False) -> tuple[FeedEntry, ...]:
        """The entries, newest first."""
        if store is not self._store:
            self._store, self._entries = store, {}
            ends = (pages.last_seq(store, "measurements"), pages.last_seq(store, "forecasts"))
            self._seen = (max(0, ends[0] - _FIRST_LOOK), max(0, ends[1] - _FIRST_LOOK))
        measured = pages.measured_since(store, self._seen[0], limit=_FIRST_LOOK)
        forecast = pages.forecast_since(store, self._seen[1], limit=_FIRST_LOOK)
        if measured or forecast:
            self._seen = (
                measured[-1]["seq"] if measured else self._seen[0],
                forecast[-1]["seq"] if forecast else self._seen[1],
            )
            for row in (*measured, *forecast):
                self._entries[row["id"]] = _entry(row)
            newest = sorted(self._entries.values(), key=lambda entry: entry.created_at, reverse=True)
            kept = [entry for entry in newest if entry.search is None][:MOST]
            kept += [entry for entry in newest if entry.search is not None][:MOST]
            self._entries = {entry.id: entry for entry in sorted(kept, key=lambda one: one.created_at, reverse=True)}
        return tuple(entry for entry in self._entries.values() if searches_too or entry.search is None)[:MOST]


def _entry(row: pages.FeedRow) -> FeedEntry:
    return FeedEntry(
        id=row["id"],
        kind=row["kind"],
        created_at=row["created_at"],
        kernel=PurePath(row["name"]).name or row["kernel_id"],
        kernel_id=row["kernel_id"],
        task=row["task"],
        device=row["device"],
        who=row["who"] or "",
        search=row["search"],
        outcome=row["outcome"] or "",
        log2=row["log2"],
        low=row["low"],
        high=row["high"],
        p_correct=row["p_correct"],
        time_us=row["time_us"],
        quarantined=bool(row["quarantined"]),
    )
