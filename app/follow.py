"""`kforecast status --follow`: on a terminal the present, drawn over itself; elsewhere a line or an object a change."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from .inline import Inline, size
from .output import bold, dim
from .status_page import decision_words, device_words, status_blocks, verdict_words

if TYPE_CHECKING:
    from ..tools.following import (
        Change,
        DeviceLine,
        Follower,
        ForecastLine,
        Present,
        SearchLine,
        StoreLine,
    )
    from ..tools.status import MeasurementLine, RequestLine

TICK_S = 0.5
"""Between two looks. A look that finds nothing new is a stat and a pragma."""
_RENEW_S = 2.0
"""How old what is drawn may grow: it says how long ago things were."""
_WORDS = {
    "missing": "there is no store yet; waiting for one",
    "replaced": "another store stands there now; followed from here on",
    "locked": "locked by another process; trying again",
}


def follow(follower: Follower, *, limit: int, plain: bool, as_json: bool, ticks: int | None = None) -> None:
    """Follow until Ctrl-C, which is the ordinary end. ticks: end after so many looks; None: never.

    plain: a line a change also where stdout is a terminal.
    """
    live = sys.stdout.isatty() and not (plain or as_json)
    with follower, suppress(KeyboardInterrupt):
        if live:
            _draw(follower, limit, ticks)
        else:
            _print(follower, limit, _as_object if as_json else change_line, ticks)


def _print(follower: Follower, limit: int, text_of: Callable[[Change], str], ticks: int | None) -> None:
    """What was last, then every change as it comes."""
    changes = follower.poll()
    now = follower.present(limit)
    before = [] if now is None else _as_changes(now)
    for change in [*changes, *before]:
        click.echo(text_of(change))
    for _ in _every(TICK_S, ticks):
        for change in follower.poll():
            click.echo(text_of(change))


def _as_object(change: Change) -> str:
    return json.dumps(change.flat(), allow_nan=False)


def _draw(follower: Follower, limit: int, ticks: int | None) -> None:
    notice = ""
    last: Present | None = None
    drawn = 0.0
    with Inline() as screen:
        for _ in _every(TICK_S, ticks):
            changes = follower.poll()
            for change in changes:
                if change.kind == "store":
                    notice = "" if change.line.state == "open" else change_line(change)  # type: ignore[union-attr]
            if changes or time.monotonic() - drawn > _RENEW_S:
                last = follower.present(limit) or last
                screen.draw(view(last, notice, rows=size()[1] - 1))
                drawn = time.monotonic()


def view(now: Present | None, notice: str, *, rows: int) -> list[str]:
    """What the terminal shows in at most `rows` lines; None: nothing was read yet."""
    foot = dim(f"  {time.strftime('%H:%M:%S')}  following; Ctrl-C ends it, nothing else does")
    head = [f"{bold('!')} {notice}"] if notice else []
    if now is None:
        return [*head, foot]
    room = rows - len(head) - 1
    blocks = status_blocks(now)
    # The last blocks give way first, a row at a time: measurements are the longest and can be looked up.
    while sum(map(len, blocks)) + len(blocks) > room and any(len(block) > 3 for block in blocks):
        longest = max(range(len(blocks)), key=lambda index: (len(blocks[index]), index))
        blocks[longest] = blocks[longest][:-1]
    lines = [line for block in blocks for line in (*block, "")]
    return [*head, *lines[: max(room, 0)], foot]


def _every(seconds: float, times: int | None) -> Iterator[int]:
    """Count, a pause before each number but the first."""
    count = 0
    while times is None or count < times:
        yield count
        count += 1
        if count != times:
            time.sleep(seconds)


def _as_changes(now: Present) -> list[Change]:
    from ..tools.following import Change

    changes = [Change(at=one.created_at, kind="request", line=one) for one in now.unfinished]
    changes += [Change(at=one.created_at, kind="measurement", line=one) for one in now.measurements]
    changes += [Change(at=one.created_at, kind="forecast", line=one) for one in now.forecasts]
    changes += [Change(at=one.updated_at, kind="search", line=one) for one in now.searches]
    return sorted(changes, key=lambda change: change.at)


def change_line(change: Change) -> str:
    """A change as one line: moment (UTC), kind, what."""
    tellers: dict[str, Callable[..., str]] = {
        "store": _store_words,
        "device": _device_words,
        "request": _request_words,
        "measurement": _measurement_words,
        "forecast": _forecast_words,
        "search": _search_words,
    }
    return f"{change.at[11:19]}  {change.kind:<11}  {tellers[change.kind](change.line)}".rstrip()


def _store_words(line: StoreLine) -> str:
    if line.state == "open":
        return f"{line.path}"
    return f"{line.path}: {_WORDS.get(line.state, line.message)}"


def _device_words(line: DeviceLine) -> str:
    if line.holder is None:
        return f"{line.device}  free"
    return f"{line.device}  held by process {line.holder.pid}, {line.holder.purpose}".rstrip(", ")


def _request_words(line: RequestLine) -> str:
    waits = "" if line.before is None else f"{line.before} before it"
    return _joined(line.request_id, line.state, line.device, line.client, waits, line.progress)


def _measurement_words(line: MeasurementLine) -> str:
    from ..tools.words import ratio_text, time_text

    times = [f"S {ratio_text(line.speedup)}"] if line.speedup is not None else []
    times += [time_text(line.time_us)] if line.time_us is not None else []
    return _joined(line.name, verdict_words(line), *times, line.task, line.device, line.measurement_id)


def _forecast_words(line: ForecastLine) -> str:
    from ..tools.words import ratio_text, span_text

    what = (
        f"S {ratio_text(line.speedup)} ({span_text(line.low, line.high, short=True)}) if correct ({line.p_correct:.0%})"
    )
    return _joined(line.name, what, decision_words(line), line.forecaster, line.task, line.device, line.forecast_id)


def _search_words(line: SearchLine) -> str:
    from ..tools.words import ratio_text

    best = "" if line.best is None else f"best S {ratio_text(line.best)}"
    gone = "" if line.worked_on or line.state not in ("working", "stopping") else "worker gone"
    tally = f"{line.measured} measured of {line.proposed} proposed"
    return _joined(line.search_id, line.state, gone, best, tally, line.task, device_words(line.device))


def _joined(*parts: str) -> str:
    return "  ".join(part for part in parts if part)
