"""The store: one SQLite file, one way to open it, one way to write it.

Lessons built in, each measured or read before it was needed:

- Writers take BEGIN IMMEDIATE. A deferred transaction that reads and then writes fails at once with "locked" whenever
  another writer came between, whatever the busy timeout says: 1,921 of 3,000 such transactions of 6 processes did.
- SQLite 3.7.0 to 3.51.2 can corrupt a database in WAL mode (sqlite.org/wal.html, "The WAL-Reset Bug"): a checkpoint
  that begins while another connection restarts the log may note frames as copied that never were. Python ships such
  versions. So automatic checkpoints are off, and a process writes only while it holds a file lock beside the database;
  whoever finds the log long copies it back before letting that lock go. No writer and no second checkpoint can run
  then. (The checkpoint of the last connection's close is safe: SQLite makes it alone with the file.)
- WAL needs memory that all connections share, which the machines of a network file system do not.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self, SupportsIndex

from . import schema
from .errors import InputError, StoreError
from .faults import StoreMissing, StoreOutdated, as_store_errors
from .filesystem import network_filesystem
from .locks import fair_lock
from .paths import make_private_directory, store_path

Value = str | int | float | bytes | None

_INCREMENTAL = 2
"""The mode of `PRAGMA auto_vacuum` in which free pages are given back when asked, some at a time."""

_log = logging.getLogger(__name__)
_creating = threading.Lock()


class Store:
    """An open store. Usable from any thread, not across a fork; opened with `open` or `open_readonly`.

    path: the file. writable: whether `write` works. notice: what the user should know of where it lies, or None.
    """

    checkpoint_bytes = 4 << 20
    """Length of the write-ahead log from which a commit copies it back."""

    def __init__(self, path: Path, db: sqlite3.Connection, *, writable: bool, timeout_s: float) -> None:
        self.path = path
        self.writable = writable
        self._network = network_filesystem(path)
        self.notice = None if self._network is None else _notice(path, self._network)
        self._db = db
        self._timeout_s = timeout_s
        self._mutex = threading.RLock()
        self._process = os.getpid()
        self._closed = False
        self._inode = _inode(path)
        self._wal_path = path.with_name(path.name + "-wal")
        self._checkpoint_at = self.checkpoint_bytes

    @classmethod
    def open(cls, path: Path | None = None, *, timeout_s: float = 30.0) -> Self:
        """Open the store for reading and writing; make it, its directory and its tables if they are missing.

        path: absolute; None is `paths.store_path()`. timeout_s: how long to wait for other writers before StoreLocked.
        Raises InputError for a relative path; StoreError where the file cannot be used, is damaged, is no store, or was
        written by a newer kforecast.
        """
        path = _absolute(path)
        make_private_directory(path.parent)
        _create(path)
        with as_store_errors(path, timeout_s):
            store = cls(path, _connect(path, "rw", timeout_s), writable=True, timeout_s=timeout_s)
        try:
            with as_store_errors(path, timeout_s):
                store._prepare()
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def open_readonly(cls, path: Path | None = None, *, timeout_s: float = 5.0) -> Self:
        """Open an existing store for reading only. Creates and migrates nothing.

        Raises StoreMissing where there is none yet, StoreOutdated for one of an older kforecast; InputError and
        StoreError as `open` does.
        """
        path = _absolute(path)
        if not path.exists():
            raise _no_store_yet(path)
        with as_store_errors(path, timeout_s):
            store = cls(path, _connect(path, "ro", timeout_s), writable=False, timeout_s=timeout_s)
        try:
            with as_store_errors(path, timeout_s):
                found = schema.version(store._db, path)
            if found == 0:
                raise _no_store_yet(path)
            if found < schema.LATEST:
                raise StoreOutdated(
                    f"The store has an older schema ({found}, this kforecast needs {schema.LATEST})",
                    value=path,
                    next_step="Run `kforecast doctor` once: opening the store for writing brings it up to date.",
                )
        except BaseException:
            store.close()
            raise
        return store

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction on the yielded connection: committed at the end of the block, rolled back if it raises.

        Nothing is retried. Other threads and processes wait up to the store's timeout. Raises StoreLocked when that is
        over, StoreError where SQLite refuses, when the store is read-only, inside another `write` of the same thread,
        and when the file was deleted or replaced since it was opened.
        """
        if not self.writable:
            raise StoreError(
                "The store was opened for reading only", value=self.path, next_step="Open it with Store.open to write."
            )
        with self._using() as db:
            if db.in_transaction:
                raise StoreError(
                    "A transaction is already open in this thread",
                    value=self.path,
                    next_step="Use the connection that write() yielded instead of opening a second transaction.",
                )
            with fair_lock(self.path, timeout_s=self._timeout_s):
                self.check_in_place()
                try:
                    db.execute("BEGIN IMMEDIATE")
                    yield db
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise
                self._checkpoint_if_long()

    def read(self, sql: str, parameters: Sequence[Value] = ()) -> list[sqlite3.Row]:
        """All rows of one query; inside `write` or `snapshot` of the same thread, as that transaction sees them."""
        with self._using() as db:
            return db.execute(sql, parameters).fetchall()

    def read_one(self, sql: str, parameters: Sequence[Value] = ()) -> sqlite3.Row | None:
        """The first row of one query, or None."""
        with self._using() as db:
            row: sqlite3.Row | None = db.execute(sql, parameters).fetchone()
            return row

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Several queries that see one moment of the store. Keep it short: the log cannot be emptied meanwhile."""
        with self._using() as db:
            if db.in_transaction:
                yield db
                return
            db.execute("BEGIN")
            try:
                yield db
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def shrink(self, step_pages: int = 200) -> None:
        """Give the space of dropped rows back to the file system, in steps that each hold other writers up shortly.

        step_pages: pages moved in one transaction. A store from before stores could do that is rewritten whole the
        first time (VACUUM): other processes cannot write meanwhile, and it takes as much free space as the rows that
        stay. Readers on an older moment keep the file long until the next commits. Raises StoreLocked, StoreError where
        there is no space, or the store is read-only or in a transaction.
        """
        if not self.writable:
            raise StoreError(
                "The store was opened for reading only", value=self.path, next_step="Open it with Store.open to write."
            )
        if self.read("PRAGMA auto_vacuum")[0][0] == _INCREMENTAL:
            free = left = self.free_bytes()
            while left and left <= free:
                free = left - 1  # each step frees some, or there is nothing more to do
                with self.write() as db:
                    db.execute(f"PRAGMA incremental_vacuum({step_pages})").fetchall()  # a page a row
                left = self.free_bytes()
        else:
            with self._using() as db, fair_lock(self.path, timeout_s=self._timeout_s):
                self.check_in_place()
                db.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
                db.execute("VACUUM")
        with self._using(), fair_lock(self.path, timeout_s=self._timeout_s):
            self._checkpoint_at = 0
            self._checkpoint_if_long()

    def free_bytes(self) -> int:
        """Bytes of the file that dropped rows have left behind and no row uses."""
        return int(self.read("PRAGMA freelist_count")[0][0]) * int(self.read("PRAGMA page_size")[0][0])

    @property
    def journal_mode(self) -> str:
        """`wal`, or `delete` on a network file system."""
        row = self.read("PRAGMA journal_mode")[0]
        return str(row[0])

    def data_version(self) -> int:
        """A number that changes when another connection has committed (`PRAGMA data_version`)."""
        version: int = self.read("PRAGMA data_version")[0][0]
        return version

    def check_in_place(self) -> None:
        """Raise StoreMissing if the file at `path` is no longer the one that was opened: commits would be lost."""
        if _inode(self.path) != self._inode:
            raise StoreMissing(
                "The store was deleted or replaced while it was open",
                value=self.path,
                next_step="Put it back, or start kforecast again to work with what is there now.",
            )

    def close(self) -> None:
        """Close the store; closing twice is no error. In a forked child, only forgets it."""
        if self._process != os.getpid():
            return
        with self._mutex:
            self._db.close()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[object, ...]:
        raise StoreError(
            "An open store cannot be copied or sent to another process",
            value=self.path,
            next_step="Send its path and open it there.",
        )

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        if self._process != os.getpid():
            raise StoreError(
                "The store was opened before a fork and cannot be used in the child",
                value=self.path,
                next_step="Open the store anew in each process.",
            )
        with self._mutex, as_store_errors(self.path, self._timeout_s):
            if self._closed:
                raise StoreError("The store is closed", value=self.path, next_step="Open it anew.")
            yield self._db

    def _prepare(self) -> None:
        db = self._db
        network = self._network
        db.execute(f"PRAGMA synchronous = {'NORMAL' if network is None else 'FULL'}")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("PRAGMA foreign_keys = ON")
        wanted = "wal" if network is None else "delete"
        if network is None and self.journal_mode == wanted and schema.version(db, self.path) == schema.LATEST:
            return
        with fair_lock(self.path, timeout_s=self._timeout_s):
            if network is not None:
                # In this mode SQLite reads a WAL that a copied file may still have without any shared memory.
                db.execute("PRAGMA locking_mode = EXCLUSIVE")
            if schema.version(db, self.path) == 0:
                db.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")  # has its effect before the first table only
            got = db.execute(f"PRAGMA journal_mode = {wanted}").fetchone()[0]
            if network is not None:
                db.execute("PRAGMA locking_mode = NORMAL")
                schema.version(db, self.path)
            if got != wanted:
                raise StoreError(
                    f"SQLite keeps the journal mode `{got}` where `{wanted}` is needed",
                    value=self.path,
                    next_step="Close every program that has it open, or set KFORECAST_DB to a local absolute path.",
                )
            schema.migrate(db, self.path)

    def _checkpoint_if_long(self) -> None:
        """Copy the log back if it is long. The caller holds the file lock; its commit has succeeded, whatever comes."""
        length = _size(self._wal_path)
        if length < self._checkpoint_at:
            return
        # Readers on an older moment are not waited for: others would wait meanwhile. The log just grows on.
        self._db.execute("PRAGMA busy_timeout = 0")
        try:
            busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            self._checkpoint_at = 2 * length if busy else self.checkpoint_bytes
        except sqlite3.Error as error:
            self._checkpoint_at = 2 * length
            _log.warning("the write-ahead log of %s stays long (%d bytes): %s", self.path, length, error)
        finally:
            self._db.execute(f"PRAGMA busy_timeout = {round(self._timeout_s * 1000)}")


def _absolute(path: Path | None) -> Path:
    if path is None:
        path = store_path()
    if not path.is_absolute():
        raise InputError("The store's path is relative", value=path, next_step="Give an absolute path.")
    # SQLite puts -wal and -shm beside the file that a link leads to; the lock must be the same one for all, too.
    return path.resolve()


def _notice(path: Path, network: str) -> str:
    return (
        f"The store lies on a network file system ({network}), where there is no WAL: readers and writers wait for "
        f"each other. Set KFORECAST_DB to an absolute path on a local disk; now it is {path}."
    )


def _no_store_yet(path: Path) -> StoreMissing:
    return StoreMissing(
        "There is no store yet", value=path, next_step="Measure something first: `kforecast measure FILE`."
    )


def _create(path: Path) -> None:
    try:
        # Mode 0600 from the first moment on; SQLite gives its -wal and -shm files the same. One thread at a time, and
        # never a file that exists: fcntl locks end when their process closes any descriptor of the file, so this close
        # would drop the locks of a connection that another thread has opened by then.
        with _creating:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreError(
            f"The store cannot be made ({error.strerror})",
            value=path,
            next_step="Give yourself write permission there, or set KFORECAST_DB to another absolute path.",
        ) from error


def _connect(path: Path, mode: str, timeout_s: float) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, timeout=timeout_s, isolation_level=None, check_same_thread=False
    )
    db.row_factory = sqlite3.Row
    return db


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_dev, facts.st_ino


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
