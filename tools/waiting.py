"""How long a request will still take, told from the ones before it on the same device."""

from __future__ import annotations

from datetime import UTC, datetime
from statistics import median

from ..store import requests
from ..store.database import Store
from ..store.models import Request

_LOOKED_AT = 40
_LEAST_S = 0.5


def eta_s(store: Store, request: Request) -> float | None:
    """Seconds until the request has probably ended; None where nothing was measured on its device yet.

    As many medians of the last measurements' durations as requests are before it, and one for itself, less what the
    one in work has had. Measurements of another effort count only where there are none of this one.
    """
    recent = requests.recent(store, _LOOKED_AT, device=request.device)
    ended = [one for one in recent if one.state == "completed"]
    alike = [one for one in ended if one.payload.get("effort") == request.payload.get("effort")]
    taken = [spent for one in alike or ended if (spent := _seconds(one)) is not None]
    if not taken:
        return None
    each = median(taken)
    in_work = [one for one in requests.unfinished(store, device=request.device) if one.state == "working"]
    if request.state == "working":
        return round(max(each - (_seconds(request) or 0.0), _LEAST_S), 1)
    ahead = requests.position(store, request.id) or 0
    rest = sum(max(each - (_seconds(one) or 0.0), _LEAST_S) for one in in_work)
    return round(rest + (ahead + 1) * each, 1)


def _seconds(request: Request) -> float | None:
    """What a request took from the moment it was begun, up to now if it has not ended."""
    if request.started_at is None:
        return None
    end = datetime.now(UTC) if request.finished_at is None else datetime.fromisoformat(request.finished_at)
    return max((end - datetime.fromisoformat(request.started_at)).total_seconds(), 0.0)
