"""The store's one clock: UTC as text that sorts as it ticks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def utc_now() -> str:
    """Now in UTC with microseconds, e.g. `2026-11-30T19:05:00.000042Z`. Of fixed width, so text order is time order."""
    return _text(datetime.now(UTC))


def seconds_ago(seconds: float) -> str:
    """As `utc_now`, so many seconds before."""
    return _text(datetime.now(UTC) - timedelta(seconds=seconds))


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
