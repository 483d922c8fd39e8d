"""A place of the demo's own: store, sockets, cache and configuration in a temporary folder that goes with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from ...bench.broker import processes_alive
from ...store.paths import CACHE_VARIABLE, RUNTIME_VARIABLE, STORE_VARIABLE

_PREFIX = "kforecast-demo-"
_OWNER = "owner"
_ENDS = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def place_of_its_own() -> Iterator[Path]:
    """The path for a store, in a new folder; store, sockets and cache of this process are there while the block runs.

    The folder is removed at the end, also when the process is told to end (SIGTERM, a closed terminal). What a process
    that was killed outright has left is removed by the next one.
    """
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    (folder / _OWNER).write_text(processes_alive.owner_name("demo"))
    moved = {
        STORE_VARIABLE: str(folder / "kforecast.db"),
        RUNTIME_VARIABLE: str(folder / "run"),
        CACHE_VARIABLE: str(folder / "cache"),
    }
    before = {name: os.environ.get(name) for name in moved}
    os.environ.update(moved)
    handlers = {number: signal.signal(number, _end) for number in _ENDS}
    try:
        yield folder / "kforecast.db"
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        shutil.rmtree(folder, ignore_errors=True)


def _end(number: int, frame: FrameType | None) -> None:
    """Unwind, so that the folder goes."""
    del frame
    raise SystemExit(128 + number)


def _sweep() -> None:
    """Remove the folders of demos that no longer run. Only this user's: others' cannot be removed anyway."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            own = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
            if own and not processes_alive.is_alive((folder / _OWNER).read_text()):
                shutil.rmtree(folder, ignore_errors=True)
