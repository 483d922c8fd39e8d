"""SQLite's errors as StoreErrors that say what to do next."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import StoreError


class StoreLocked(StoreError):
    """Another process holds the store. The one fault that time alone may heal."""


class StoreMissing(StoreError):
    """There is no store at the path, or no longer."""


class StoreOutdated(StoreError):
    """An older kforecast wrote the store, and who only reads cannot bring it up to date."""


_FREE_SPACE = "Free some space (`kforecast gc` drops what nothing needs), then try again; nothing stored was lost."
_PERMISSION = "Check that you own the file and its directory and may write to both, or set KFORECAST_DB elsewhere."
_DAMAGED = (
    "Copy it with its -wal and -shm files to a safe place, recover what is left with `sqlite3 FILE .recover`, "
    "and import that, or an export, into a new store."
)
_FAULTS: tuple[tuple[int, str, str], ...] = (
    (sqlite3.SQLITE_READONLY, "The store cannot be written", _PERMISSION),
    (sqlite3.SQLITE_PERM, "The store cannot be opened", _PERMISSION),
    (sqlite3.SQLITE_CANTOPEN, "The store cannot be opened", _PERMISSION),
    (sqlite3.SQLITE_FULL, "The disk or the quota is full", _FREE_SPACE),
    (sqlite3.SQLITE_IOERR, "The disk failed while the store was read or written", "Check the disk's space and health."),
    (sqlite3.SQLITE_CORRUPT, "The store is damaged", _DAMAGED),
    (
        sqlite3.SQLITE_NOTADB,
        "The file is no SQLite database",
        "Move it away, or set KFORECAST_DB to another absolute path.",
    ),
    (
        sqlite3.SQLITE_CONSTRAINT,
        "The store refused a row",
        "Save what the row refers to first (task, then kernel, then the rest), each id once.",
    ),
)
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def locked(path: Path, waited_s: float) -> StoreLocked:
    """The error for a store that others kept busy for `waited_s` seconds."""
    return StoreLocked(
        f"Another process has kept the store locked for {waited_s:g} s",
        value=path,
        next_step=f"See who has it open with `fuser -v {path}`, end or wait for that, then try again.",
    )


def store_error(error: sqlite3.Error, path: Path, waited_s: float) -> StoreError:
    """The StoreError for an error of SQLite on the store at `path`, whose connections wait `waited_s` for a lock."""
    # The low byte is the primary code; the name alone would do, did Python know the newer extended ones.
    code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _LOCKED:
        return locked(path, waited_s)
    for fault, what, next_step in _FAULTS:
        if code == fault:
            return StoreError(f"{what} ({error})", value=path, next_step=next_step)
    return StoreError(
        f"The store could not be read or written ({error})",
        value=path,
        next_step="Run `kforecast doctor`; if it finds nothing, report this as a bug.",
    )


@contextmanager
def as_store_errors(path: Path, waited_s: float) -> Iterator[None]:
    """Raise errors of SQLite inside the block as StoreErrors. Misuse of its API stays what it is: a bug of ours."""
    try:
        yield
    except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
        raise
    except sqlite3.Error as error:
        raise store_error(error, path, waited_s) from error
