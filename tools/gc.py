"""The use case `gc`: forget old rows that nothing needs, give their space back, clear what the cache no longer uses."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..store import retention
from ..store.database import Store
from ..store.faults import StoreMissing
from ..store.forgetting import forget
from ..store.paths import cache_dir, runtime_dir, store_path

IN_USE = timedelta(minutes=10)
"""What the cache used this recently stays, whatever was asked for: somebody may be about to load it."""
_WORTH_PAGES = 1 << 20
_WORTH_SHARE = 0.1
"""Shrinking moves rows about: done for so many free bytes, or this share of the file. What is left, new rows fill."""
_TOLD_ROWS = 10_000
"""Rows dropped from one word about it to the next."""
_CACHED = ("c/*", "cuda/??/*", "triton/??/*", "programs/??/*", "torch/*", "sources/*")
"""What one entry of the cache is, by folder."""


class Collected(BaseModel):
    """What went, or with `dry_run` would go. Bytes: of the dropped rows' text; of the store's file, before and after;
    of cache entries and of worker logs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    summary: str
    dry_run: bool
    before: str
    store: str
    rows: dict[str, int]
    row_bytes: int
    store_bytes_before: int
    store_bytes_after: int
    cache_entries: int
    cache_bytes: int
    logs: int
    log_bytes: int


@dataclass(frozen=True)
class _Stale:
    path: Path
    size: int


def collect(
    *, older_than: timedelta, dry_run: bool = False, on_progress: Callable[[str], None] = lambda text: None
) -> Collected:
    """Drop rows, cache entries and worker logs that are older than that and that nothing needs.

    What rows are needed is told in `store.retention`. Raises StoreError where the store cannot be written.
    """
    moment = datetime.now(UTC) - older_than
    before = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    path = store_path()
    size = _store_bytes(path)
    on_progress("looking for rows that nothing needs")
    forgotten = _rows(path, before, dry_run, on_progress)
    on_progress("looking through the cache")
    unused = list(_unused(min(moment, datetime.now(UTC) - IN_USE).timestamp()))
    logs = list(_old(runtime_dir().glob("search-*.log"), min(moment, datetime.now(UTC) - IN_USE).timestamp()))
    if not dry_run:
        for one in (*unused, *logs):
            _remove(one.path)
    found = {
        "dry_run": dry_run,
        "before": before,
        "store": str(path),
        "rows": forgotten.rows,
        "row_bytes": forgotten.text_bytes,
        "store_bytes_before": size,
        "store_bytes_after": _store_bytes(path),
        "cache_entries": len(unused),
        "cache_bytes": sum(one.size for one in unused),
        "logs": len(logs),
        "log_bytes": sum(one.size for one in logs),
    }
    return Collected.model_validate({**found, "summary": _summary(found)})


def _rows(path: Path, before: str, dry_run: bool, on_progress: Callable[[str], None]) -> retention.Forgotten:
    if dry_run:
        try:
            with Store.open_readonly(path) as store:
                return retention.forgettable(store, before)
        except StoreMissing:
            return retention.Forgotten(dict.fromkeys(retention.TABLES, 0), 0)
    if not path.exists():
        return retention.Forgotten(dict.fromkeys(retention.TABLES, 0), 0)
    with Store.open(path) as store:
        forgotten = forget(store, before, on_progress=_at_times(on_progress))
        if store.free_bytes() > min(_WORTH_PAGES, _WORTH_SHARE * _store_bytes(path)):
            on_progress("giving the space back")
            store.shrink()
        return forgotten


def _at_times(on_progress: Callable[[str], None]) -> Callable[[int, int], None]:
    told = 0

    def say(done: int, of: int) -> None:
        nonlocal told
        if done >= told + _TOLD_ROWS:
            told = done
            on_progress(f"dropped {done:,} of {of:,} rows")

    return say


def _unused(before: float) -> Iterator[_Stale]:
    """Entries of the cache that nobody has used since a moment (seconds of Unix time)."""
    for pattern in _CACHED:
        yield from _old(cache_dir().glob(pattern), before)


def _old(paths: Iterator[Path], before: float) -> Iterator[_Stale]:
    for path in paths:
        with suppress(FileNotFoundError):  # another process clears up as well
            files = [path, *path.rglob("*")] if path.is_dir() else [path]
            facts = [file.lstat() for file in files]
            if max(max(one.st_mtime, one.st_atime if path.is_file() else 0.0) for one in facts) < before:
                yield _Stale(path, sum(one.st_size for one in facts))


def _remove(path: Path) -> None:
    """A folder is taken away at once and then deleted: nobody may see half of an entry."""
    with suppress(FileNotFoundError):
        if not path.is_dir():
            path.unlink()
            return
        grave = path.with_name(f".draft-gone-{time.time_ns()}")
        path.rename(grave)
        shutil.rmtree(grave, ignore_errors=True)


def _store_bytes(path: Path) -> int:
    total = 0
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            total += path.with_name(path.name + suffix).stat().st_size
    return total


def _summary(found: dict[str, object]) -> str:
    rows = found["rows"]
    assert isinstance(rows, dict)
    count = sum(rows.values())
    verb = "Would drop" if found["dry_run"] else "Dropped"
    return f"{verb} {count:,} row{'' if count == 1 else 's'} from before {str(found['before'])[:10]}."
