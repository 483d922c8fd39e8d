"""A recording: the logs of searches, and the tasks, kernels, measurements and forecasts that they name, in one file.

Gzipped JSON lines: `recording` (what it is), then the nouns, each after those it names, then for each search a line
`search` and its events in order. The log is the record: whatever shows searches shows a recording that is played.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...store import forecasts, kernels, measurements, searches, tasks
from ...store.database import Store
from ...store.errors import InputError
from ...store.models import Decision, Forecast, Kernel, Measurement, Noun, Task
from ...store.searches import LoggedEvent, Search
from ..search.events import AnyEvent, Created, Forecasted, Measured, Proposed, Woke, from_row, to_row
from ..search.replay import Pool, is_replay, pool_of

VERSION = 1
SHIPPED = Path(__file__).with_name("searches.jsonl.gz")
"""The recording that comes with the package."""
_NOUNS: dict[str, type[Noun]] = {
    "task": Task,
    "kernel": Kernel,
    "measurement": Measurement,
    "forecast": Forecast,
    "decision": Decision,
}


@dataclass(frozen=True)
class Recording:
    """about: where and how it was recorded, for people. seconds: how long it takes to play at speed 1. searches: each
    as it ended, with its log."""

    about: str
    device: str
    recorded: str
    seconds: float
    nouns: tuple[tuple[str, Noun], ...]
    searches: tuple[tuple[Search, tuple[AnyEvent, ...]], ...]

    def of_kind(self, kind: str) -> dict[str, Any]:
        """The nouns of a kind, by id."""
        return {noun.id: noun for name, noun in self.nouns if name == kind}  # type: ignore[attr-defined]


def record(
    store: Store, search_ids: Sequence[str], *, about: str, device: str, recorded: str, seconds: float
) -> Recording:
    """Take searches out of a store. device: what the recorded searches say they ran on, e.g. `cuda:0`.

    Of a search that was itself a replay, each measured candidate is tied to the recorded measurement it came from, with
    the times of that; its ratio was against another kernel than the search's seed and is left out.
    Raises InputError for an unknown search.
    """
    taken = []
    nouns: dict[str, dict[str, Noun]] = {kind: {} for kind in _NOUNS}
    for search_id in search_ids:
        search = searches.resolve(store, search_id)
        pool = pool_of(search.device) if is_replay(search.device) else None
        log = [_general(from_row(row), device) for row in searches.events(store, search.id)]
        if pool is not None:
            log = _tied(log, pool)
        _collect(store, search, log, pool, nouns)
        taken.append((search.model_copy(update={"device": device, "request_key": None}), tuple(log)))
    ordered = [(kind, _on(noun, device)) for kind, found in nouns.items() for noun in found.values()]
    return Recording(about, device, recorded, seconds, tuple(ordered), tuple(taken))


def _general(event: AnyEvent, device: str) -> AnyEvent:
    """The event without what is only true of the machine it was recorded on."""
    if isinstance(event, Created):
        return event.model_copy(update={"config": event.config.model_copy(update={"device": device})})
    if isinstance(event, Woke):
        return event.model_copy(update={"owner": ""})
    return event


def _tied(log: Sequence[AnyEvent], pool: Pool) -> list[AnyEvent]:
    """The log of a replay, each measurement with the id of what was recorded."""
    kernel_of = {event.node: event.kernel_id for event in log if isinstance(event, Proposed)}
    first = log[0]
    assert isinstance(first, Created), "a log begins with its creation"
    tied: list[AnyEvent] = []
    for event in log:
        found = None
        if isinstance(event, Measured):
            found = pool.recorded.get(kernel_of.get(event.node, first.config.seed_id))
        if found is not None:
            told = found.measurement
            event = event.model_copy(  # noqa: PLW2901 -- the same event, tied
                update={"measurement_id": told.id, "percent_of_floor": told.percent_of_floor}
            )
        tied.append(event)
    return tied


def _collect(
    store: Store, search: Search, log: Sequence[AnyEvent], pool: Pool | None, nouns: dict[str, dict[str, Noun]]
) -> None:
    """The nouns that a log names, and those that they name."""

    def keep(kind: str, noun: Any) -> None:
        if noun is not None:
            nouns[kind].setdefault(noun.id, noun)

    def keep_kernel(kernel_id: str | None) -> None:
        if kernel_id is not None:
            keep("kernel", kernels.get(store, kernel_id) or (pool.recorded[kernel_id].kernel if pool else None))

    keep("task", tasks.get(store, search.task_id))
    keep_kernel(search.seed_id)
    of_pool = {} if pool is None else {one.measurement.id: _alone(one.measurement) for one in pool.recorded.values()}
    for event in log:
        if isinstance(event, Proposed):
            keep_kernel(event.kernel_id)
        elif isinstance(event, Measured) and event.measurement_id is not None:
            found = measurements.get(store, event.measurement_id) or of_pool.get(event.measurement_id)
            if found is not None:
                keep_kernel(found.kernel_id)
                keep_kernel(found.baseline_id)
                keep("measurement", found)
        elif isinstance(event, Forecasted) and event.forecast_id is not None:
            said = forecasts.get(store, event.forecast_id)
            if said is not None:
                keep_kernel(said.baseline_id)
                keep("forecast", said)
                for decision in forecasts.decisions(store, said.id, limit=None):
                    keep("decision", decision)


def _alone(found: Measurement) -> Measurement:
    """A measurement without what it says of another kernel."""
    ratio = {"log2_speedup": None, "log2_low": None, "log2_high": None}
    cases = tuple(
        case.model_copy(update={**ratio, "baseline_us": None, "baseline_warm_us": None}) for case in found.cases
    )
    nothing = {"baseline_id": None, "baseline_us": None, "comparison": "none", "confidence": None}
    return found.model_copy(update={**ratio, **nothing, "interval_method": None, "cases": cases})


def _on(noun: Noun, device: str) -> Noun:
    return noun.model_copy(update={"device": device}) if isinstance(noun, Measurement | Forecast) else noun


def write(recording: Recording, path: Path) -> int:
    """Write a recording to a `.jsonl.gz` file; its size in bytes."""
    head = {
        "kind": "recording",
        "version": VERSION,
        "about": recording.about,
        "device": recording.device,
        "recorded": recording.recorded,
        "seconds": recording.seconds,
    }
    lines: list[dict[str, Any]] = [head]
    for kind, noun in recording.nouns:
        lines.append({"kind": kind, "noun": noun.model_dump(mode="json", exclude_defaults=True)})
    for search, log in recording.searches:
        lines.append({"kind": "search", "noun": search.model_dump(mode="json")})
        lines += [{"kind": "event", "event": _whole(event)} for event in log]
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    # No moment of packing inside: the same recording is the same file.
    path.write_bytes(gzip.compress(text.encode("utf-8"), 9, mtime=0))
    return path.stat().st_size


def _whole(event: AnyEvent) -> dict[str, Any]:
    """An event as data; a configuration with what it leaves to the defaults, which later versions may change."""
    if isinstance(event, Created):
        return event.model_dump(mode="json")
    found: dict[str, Any] = json.loads(to_row(event, 0).json)
    return found


def read(path: Path) -> Recording:
    """Read a recording. Raises InputError for a file that is none, naming the line."""
    head: dict[str, Any] | None = None
    nouns: list[tuple[str, Noun]] = []
    taken: list[tuple[Search, list[AnyEvent]]] = []
    for number, line in enumerate(_lines(path), 1):
        try:
            entry = json.loads(line)
            kind = entry["kind"]
            if head is None:
                if kind != "recording" or entry["version"] != VERSION:
                    raise ValueError(f"not the beginning of a recording of version {VERSION}")
                head = entry
            elif kind == "search":
                taken.append((Search.model_validate(entry["noun"]), []))
            elif kind == "event":
                taken[-1][1].append(from_row(LoggedEvent(0, "", None, 0.0, json.dumps(entry["event"]))))
            else:
                nouns.append((kind, _NOUNS[kind].model_validate(entry["noun"])))
        except (ValidationError, ValueError, KeyError, TypeError, IndexError) as error:
            what = f"a line is no line of a recording ({str(error).splitlines()[0]})"
            step = "Give a file that scripts/record_demo.py wrote."
            raise InputError(what, value=f"{path.name}:{number}", next_step=step) from error
    if head is None or not taken or not all(log and isinstance(log[0], Created) for _, log in taken):
        step = "Give a file that scripts/record_demo.py wrote."
        raise InputError("the file holds no recorded search", value=path, next_step=step)
    searches_ = tuple((search, tuple(log)) for search, log in taken)
    return Recording(head["about"], head["device"], head["recorded"], head["seconds"], tuple(nouns), searches_)


def _lines(path: Path) -> Iterable[bytes]:
    try:
        return gzip.decompress(path.read_bytes()).splitlines()
    except OSError as error:  # gzip.BadGzipFile is one
        step = "Give a file that scripts/record_demo.py wrote."
        raise InputError(f"the recording cannot be read ({error})", value=path, next_step=step) from error
    except (EOFError, zlib.error) as error:
        raise InputError("the recording is damaged", value=path, next_step="Fetch the file anew.") from error
