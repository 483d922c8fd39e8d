"""Taking data out of a store and into another: `.jsonl` and `.db` go both ways, `.csv` is a table for people.

A `.jsonl` file compressed by gzip, `.jsonl.gz`, is read as it is.

A `.jsonl` file holds one noun a line, `{"kind": "kernel", "noun": {…}}`, after a first line that names the format.
Lines of kind `origin`, which say what a recorded kernel was made from, are for replays and passed over here. A
`.db` file is a small store of its own, in one file, as Datasette likes it. Requests stay where they are: an imported
one would be work for somebody else's device.
"""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import ValidationError

from . import forecasts, kernels, measurements, profiles, schema, tasks
from .clock import utc_now
from .database import Store, Value
from .errors import InputError, StoreError
from .faults import as_store_errors
from .models import Kernel, Measurement, Noun, Task
from .rows import Table
from .search_records import SEARCHES, Records, SearchRecord

Kind = Literal["task", "kernel", "measurement", "forecast", "decision", "profile", "search"]
Format = Literal["jsonl", "csv", "db"]

VERSION = 1
"""Of the `.jsonl` format."""
ROWS = (".jsonl", ".jsonl.gz")
"""How the names of files end that hold one noun a line."""
ORIGIN = "origin"
"""Kind of a line that is no noun of the store."""

# In this order every noun comes after those it refers to.
_TABLES: dict[str, Table[Any] | Records] = {
    "task": tasks.TABLE,
    "kernel": kernels.TABLE,
    "measurement": measurements.TABLE,
    "forecast": forecasts.TABLE,
    "decision": forecasts.DECISIONS,
    "profile": profiles.TABLE,
    "search": SEARCHES,
}
_REFERENCES: dict[str, tuple[tuple[str, str], ...]] = {
    "task": (),
    "kernel": (("task_id", "task"),),
    "measurement": (("task_id", "task"), ("kernel_id", "kernel"), ("baseline_id", "kernel")),
    "forecast": (("task_id", "task"), ("kernel_id", "kernel"), ("baseline_id", "kernel")),
    "decision": (("forecast_id", "forecast"),),
    "profile": (),
    "search": (("task_id", "task"), ("kernel_ids", "kernel")),
}
_CSV_COLUMNS = (
    *("id", "created_at", "task_name", "device", "kernel", "language", "baseline", "verdict", "comparison", "speedup"),
    *(
        "log2_speedup",
        "log2_low",
        "log2_high",
        "confidence",
        "interval_method",
        "time_us",
        "time_warm_us",
        "baseline_us",
    ),
    *("percent_of_floor", "noise_pct", "blocks", "censored", "effort", "lane", "launch_mode", "labels", "isolation"),
    *("reason", "quarantine", "device_seconds", "kernel_id", "baseline_id", "task_id", "device_id", "request_id"),
)


@dataclass(frozen=True)
class Filters:
    """What to export. task: name or id; device: as the user names it, or a physical device's id; since: UTC text.

    `device` and `since` choose measurements, forecasts with their decisions, searches and profiles; with either, only
    those tasks and kernels go along that what was chosen refers to. `task` chooses among all but profiles.
    """

    task: str | None = None
    device: str | None = None
    since: str | None = None


@dataclass(frozen=True)
class Counts:
    """How many nouns of each kind were new, and how many were there already."""

    added: dict[str, int]
    skipped: dict[str, int]


@dataclass(frozen=True)
class _Entry:
    kind: str
    noun: Any
    place: str
    """Where it came from, as errors name it: `runs.jsonl:12`."""


def export(
    store: Store,
    path: Path,
    *,
    filters: Filters | None = None,
    format: Format | None = None,
    overwrite: bool = False,
) -> dict[str, int]:
    """Write the store's nouns to a file and return how many of each kind went into it.

    format: by the file's suffix unless given; `csv` holds measurements only, one a row. The file appears whole or not
    at all. Raises InputError for an unknown suffix, a file that exists (without `overwrite`) or cannot be written.
    """
    suffix = format or path.suffix.removeprefix(".")
    writers = {"jsonl": _write_jsonl, "csv": _write_csv, "db": _write_db}
    if suffix not in writers:
        raise InputError(
            "The file's suffix names no export format",
            value=path.name,
            next_step=f"End the name in one of: {', '.join('.' + name for name in get_args(Format))}.",
        )
    if path.exists() and not overwrite:
        raise InputError(
            "The file exists already", value=path, next_step="Choose another name, or ask to overwrite it."
        )
    entries = _selected(store, filters or Filters())
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as directory:
            part = Path(directory) / "part.db"
            counts = writers[suffix](entries, part)
            part.replace(path)
    except OSError as error:
        raise _unwritten(path, str(error.strerror)) from error
    except StoreError as error:
        if str(directory) not in str(error.value):
            raise
        raise _unwritten(path, error.what) from error  # it is the export's disk that is full, not the store's
    return counts


def _unwritten(path: Path, why: str) -> InputError:
    return InputError(
        f"The export cannot be written ({why})",
        value=path,
        next_step="Check that the directory exists, is yours to write to and has space.",
    )


def import_(store: Store, path: Path) -> Counts:
    """Add the nouns of a `.jsonl`, `.jsonl.gz` or `.db` file to the store: all of them, or after any error none.

    Importing again changes nothing. Every noun is validated, and what it refers to must be in the file or in the store.
    Raises InputError that names file and line (or row) for what is no noun, for a task or kernel whose id is not the
    hash of its content, for a missing reference, and for an id that the store knows with other content.
    """
    if not path.is_file():
        raise InputError(
            "There is no such file", value=path, next_step="Give a .jsonl or .db file of `kforecast export`."
        )
    if path.suffix != ".db" and not path.name.endswith(ROWS):
        raise InputError(
            "Only .jsonl, .jsonl.gz and .db files can be imported", value=path, next_step="Export to .jsonl or .db."
        )
    entries = _without_repeats(_read_db(path) if path.suffix == ".db" else _read_jsonl(path))
    added = dict.fromkeys(_TABLES, 0)
    skipped = dict.fromkeys(_TABLES, 0)
    with store.write() as db:
        known = {
            kind: {row[0] for row in db.execute(f"SELECT id FROM {table.name}")} for kind, table in _TABLES.items()
        }
        coming: dict[str, set[str]] = {kind: set() for kind in _TABLES}
        for entry in entries:
            coming[entry.kind].add(entry.noun.id)
        new = []
        for entry in entries:
            _check_references(entry, known, coming)
            if entry.noun.id not in known[entry.kind]:
                new.append(entry)
                added[entry.kind] += 1
                continue
            here = _TABLES[entry.kind].get(store, entry.noun.id)
            _check_same(entry, here, "in the store")
            skipped[entry.kind] += 1
            if isinstance(here, SearchRecord) and len(entry.noun.log) > len(here.log):
                new.append(entry)  # a search that went on elsewhere since
        for entry in new:
            _TABLES[entry.kind].insert(db, entry.noun)
    return Counts(added, skipped)


def _selected(store: Store, filters: Filters) -> list[tuple[str, Noun]]:
    """The chosen nouns, each after those it refers to, as they were at one moment."""
    with store.snapshot():
        chosen = {kind: _chosen(store, kind, filters) for kind in _TABLES}
    forecast_ids = {noun.id for noun in chosen["forecast"]}
    chosen["decision"] = [noun for noun in chosen["decision"] if noun.forecast_id in forecast_ids]
    if filters != Filters():
        uses = [*chosen["measurement"], *chosen["forecast"]]
        needed = {noun.kernel_id for noun in uses} | {noun.baseline_id for noun in uses}
        needed |= {kernel_id for record in chosen["search"] for kernel_id in record.kernel_ids}
        if filters.device is not None or filters.since is not None:
            chosen["kernel"] = [kernel for kernel in chosen["kernel"] if kernel.id in needed]
        else:
            task_ids = {task.id for task in chosen["task"] if filters.task in (task.id, task.name)}
            chosen["kernel"] = [one for one in chosen["kernel"] if one.task_id in task_ids or one.id in needed]
        task_ids = {noun.task_id for noun in [*uses, *chosen["kernel"], *chosen["search"]]}
        chosen["task"] = [one for one in chosen["task"] if one.id in task_ids or filters.task in (one.id, one.name)]
    return [(kind, noun) for kind in _TABLES for noun in chosen[kind]]


def _chosen(store: Store, kind: str, filters: Filters) -> list[Any]:
    where: list[str] = []
    parameters: list[Value] = []
    if kind in ("measurement", "forecast", "search"):
        if filters.task is not None:
            where.append("task_id IN (SELECT id FROM tasks WHERE ? IN (id, name))")
            parameters.append(filters.task)
        if filters.device is not None:
            where.append("? IN (device, device_id)" if kind == "measurement" else "device = ?")
            parameters.append(filters.device)
    if kind == "profile" and filters.device is not None:
        where.append("device_id = ?")
        parameters.append(filters.device)
    if kind in ("measurement", "forecast", "profile", "search") and filters.since is not None:
        where.append("created_at >= ?")
        parameters.append(filters.since)
    return _TABLES[kind].find(store, where, parameters, order="seq", limit=None)


def _write_jsonl(entries: list[tuple[str, Noun]], path: Path) -> dict[str, int]:
    counts = dict.fromkeys(_TABLES, 0)
    with path.open("w", encoding="utf-8") as file:
        header = {"kind": "export", "version": VERSION, "created_at": utc_now()}
        file.write(json.dumps(header) + "\n")
        for kind, noun in entries:
            line = {"kind": kind, "noun": json.loads(noun.model_dump_json())}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            counts[kind] += 1
    return counts


def _write_csv(entries: list[tuple[str, Noun]], path: Path) -> dict[str, int]:
    count = 0
    by_id = {noun.id: noun for _, noun in entries if isinstance(noun, Kernel)}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _CSV_COLUMNS)
        writer.writeheader()
        for _, noun in entries:
            if not isinstance(noun, Measurement):
                continue
            kernel = by_id[noun.kernel_id]
            baseline = by_id[noun.baseline_id].name if noun.baseline_id is not None else None
            own = {name: getattr(noun, name) for name in _CSV_COLUMNS if name in Measurement.model_fields}
            named = {"kernel": kernel.name, "language": kernel.language, "baseline": baseline, "speedup": noun.speedup}
            writer.writerow({**own, **named, "labels": " ".join(noun.labels)})
            count += 1
    return {"measurement": count}


def _write_db(entries: list[tuple[str, Any]], path: Path) -> dict[str, int]:
    counts = dict.fromkeys(_TABLES, 0)
    with Store.open(path.resolve()) as target:
        with target.write() as db:
            for kind, noun in entries:
                _TABLES[kind].insert(db, noun)
                counts[kind] += 1
        # One file without companions, so that it can be sent, served read-only, or opened from a read-only place.
        target.read("PRAGMA journal_mode = DELETE")
    return counts


def _read_jsonl(path: Path) -> Iterator[_Entry]:
    for number, line in enumerate(read_lines(path), 1):
        place = f"{path.name}:{number}"
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise _bad(place, f"is no JSON ({error})") from error
        if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
            raise _bad(place, 'has no "kind"')
        if entry["kind"] == "export":
            if entry.get("version") != VERSION:
                raise _bad(place, f"is of format version {entry.get('version')}, this kforecast reads {VERSION}")
            continue
        if entry["kind"] == ORIGIN:
            continue
        if entry["kind"] not in _TABLES:
            raise _bad(place, f"is of no known kind: {entry['kind']}")
        try:
            noun = _TABLES[entry["kind"]].noun.model_validate(entry.get("noun"))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "noun"
            raise _bad(place, f"is no {entry['kind']}: {field}: {first['msg']}") from error
        yield _checked(_Entry(entry["kind"], noun, place))


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, unpacked where its name ends in `.gz`. Raises InputError for one that cannot be unpacked."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield from file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"The file cannot be unpacked ({error})", value=path, next_step="Nothing was read. Fetch the file anew."
        ) from error


def _read_db(path: Path) -> Iterator[_Entry]:
    # A copy, made by SQLite: the file may be in use, of an older schema, or in a place where nothing can be written.
    with tempfile.TemporaryDirectory(prefix="kforecast-import-") as directory:
        copy = Path(directory).resolve() / "copy.db"
        with as_store_errors(path, 5.0):
            source = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=5.0)
            try:
                if schema.version(source, path) == 0:
                    raise InputError(
                        "The file is empty", value=path, next_step="Give a .jsonl or .db file of `kforecast export`."
                    )
                target = sqlite3.connect(copy)
                try:
                    source.backup(target)
                finally:
                    target.close()
            finally:
                source.close()
        with Store.open(copy) as store:
            for kind, table in _TABLES.items():
                for noun in table.find(store, order="seq", limit=None):
                    yield _checked(_Entry(kind, noun, f"{path.name}, {table.name}"))


def _checked(entry: _Entry) -> _Entry:
    noun = entry.noun
    if isinstance(noun, Kernel):
        content = noun.model_dump(exclude={"id", "source_id", "launches", "scratch"})
        honest = Kernel.make(**content, launches=noun.launches, scratch=noun.scratch)
        if (noun.id, noun.source_id) != (honest.id, honest.source_id):
            raise _bad(entry.place, f"holds a kernel whose id is not the hash of its content: {noun.id}")
    return entry


def _without_repeats(entries: Iterator[_Entry]) -> list[_Entry]:
    first: dict[tuple[str, str], _Entry] = {}
    for entry in entries:
        earlier = first.setdefault((entry.kind, entry.noun.id), entry)
        if earlier is not entry:
            _check_same(entry, earlier.noun, f"at {earlier.place}")
    order = list(_TABLES)
    return sorted(first.values(), key=lambda entry: order.index(entry.kind))


def _check_references(entry: _Entry, known: dict[str, set[str]], coming: dict[str, set[str]]) -> None:
    for name, kind in _REFERENCES[entry.kind]:
        value = getattr(entry.noun, name)
        for id_ in value if isinstance(value, tuple) else (value,):
            if id_ is not None and id_ not in known[kind] and id_ not in coming[kind]:
                raise _bad(entry.place, f"refers to a {kind} that neither file nor store has: {id_}")


def _check_same(entry: _Entry, other: Noun | None, where: str) -> None:
    # Ids of tasks and kernels are hashes of what matters in them; names and remarks may differ.
    if isinstance(entry.noun, Task | Kernel) or (other is not None and _content(entry.noun) == _content(other)):
        return
    if isinstance(other, SearchRecord) and (entry.noun.continues(other) or other.continues(entry.noun)):
        return  # the same search, at two moments
    raise _bad(entry.place, f"holds a {entry.kind} that differs from the one of the same id {where}: {entry.noun.id}")


def _content(noun: Noun) -> dict[str, Any]:
    # As JSON, where a NaN equals itself and lists equal tuples.
    content: dict[str, Any] = json.loads(noun.model_dump_json())
    return content


def _bad(place: str, what: str) -> InputError:
    return InputError(
        f"The line {what}",
        value=place,
        next_step="Nothing was imported. Correct or remove that line, then import the file again.",
    )
