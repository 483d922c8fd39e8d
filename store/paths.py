"""Where kforecast keeps things: fixed places per user, never relative to the working directory.

Agent, command line, terminal view and CI must meet in one store whatever directory each was started in, so a relative
path in one of the variables below is refused instead of resolved.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from .errors import DeviceError, InputError, KforecastError, StoreError

STORE_VARIABLE = "KFORECAST_DB"
RUNTIME_VARIABLE = "KFORECAST_RUNTIME_DIR"
CACHE_VARIABLE = "KFORECAST_CACHE_DIR"
CONFIG_VARIABLE = "KFORECAST_CONFIG"

_NAME = "kforecast"
SESSIONS = "/run/user"
"""Where systemd keeps the runtime directories of users who are logged in."""


def store_path() -> Path:
    """The store's file: `KFORECAST_DB`, else `kforecast.db` in the user's data directory. Creates nothing.

    Raises InputError for a relative `KFORECAST_DB`.
    """
    return _from_variable(STORE_VARIABLE) or platformdirs.user_data_path(_NAME, appauthor=False) / "kforecast.db"


def config_path() -> Path:
    """The configuration file: `KFORECAST_CONFIG`, else `config.toml` in the user's configuration directory.

    Creates nothing. Raises InputError for a relative `KFORECAST_CONFIG`.
    """
    return _from_variable(CONFIG_VARIABLE) or platformdirs.user_config_path(_NAME, appauthor=False) / "config.toml"


def cache_dir() -> Path:
    """The directory of what can be made again (binaries, references), created if need be: `KFORECAST_CACHE_DIR`, else
    the user's cache directory. Raises InputError for a relative variable, DeviceError if it cannot be made."""
    path = cache_path()
    make_private_directory(path, DeviceError)
    return path


def cache_path() -> Path:
    """Where `cache_dir` is or would be made. Creates nothing. Raises InputError for a relative variable."""
    return _from_variable(CACHE_VARIABLE) or platformdirs.user_cache_path(_NAME, appauthor=False)


@contextmanager
def writing_to_cache(place: Path) -> Iterator[None]:
    """What the system refuses while something is put into the cache: a DeviceError that says how to go on."""
    try:
        yield
    except OSError as error:
        # Copying a tree goes on after a failure, and tells all of them: (from, to, why).
        why = error.args[0][0][-1] if isinstance(error, shutil.Error) else error.strerror
        raise DeviceError(
            f"the cache cannot be written ({why})",
            value=place,
            next_step=f"Make room there and see that you may write, or set {CACHE_VARIABLE} to another absolute path.",
        ) from error


def runtime_dir() -> Path:
    """The directory of sockets and locks, created if need be and closed to everybody else.

    `KFORECAST_RUNTIME_DIR`, else `kforecast` under `XDG_RUNTIME_DIR` or `/run/user/UID`, else a per-user directory
    under the temporary directory, where anybody could have put one before us: hence the check of owner and mode.
    Raises InputError for a relative variable, DeviceError where the directory cannot be made or is not ours alone.
    """
    path = runtime_path()
    make_private_directory(path, DeviceError)
    _check_private(path)
    return path


def runtime_path() -> Path:
    """Where `runtime_dir` is or would be made. Creates nothing. Raises InputError for a relative variable."""
    path = _from_variable(RUNTIME_VARIABLE)
    if path is not None:
        return path
    # The second is where the first points in a login session. Cron, su and services have no such variable, and have to
    # meet the user's other processes there: devices are locked in this directory.
    for session in (os.environ.get("XDG_RUNTIME_DIR", ""), f"{SESSIONS}/{os.getuid()}"):
        if session.startswith("/") and os.access(session, os.W_OK | os.X_OK) and os.stat(session).st_uid == os.getuid():  # noqa: PTH116
            return Path(session) / _NAME
    return Path(tempfile.gettempdir()) / f"{_NAME}-{os.getuid()}"


def make_private_directory(path: Path, raises: type[KforecastError] = StoreError) -> None:
    """Make the directory and its missing parents, each closed to everybody else (0700). Raises `raises`."""
    missing = []
    for place in (path, *path.parents):
        if place.exists():
            break
        missing.append(place)
    try:
        for place in reversed(missing):
            place.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise raises(
            f"The directory cannot be made ({error.strerror})",
            value=path,
            next_step="Give yourself write permission there, or point the KFORECAST_… variables elsewhere.",
        ) from error
    if not path.is_dir():
        raise raises(
            "A file stands where a directory is needed",
            value=path,
            next_step="Move it away, or point the KFORECAST_… variables elsewhere.",
        )


def _check_private(path: Path) -> None:
    facts = path.lstat()
    if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077:
        return
    raise DeviceError(
        "The runtime directory is not a directory of yours alone",
        value=f"{path} (owner {facts.st_uid}, mode {stat.filemode(facts.st_mode)})",
        next_step=f"Run `chmod 700` on it if it is yours, else set {RUNTIME_VARIABLE} to an absolute path of your own.",
    )


def _from_variable(variable: str) -> Path | None:
    value = os.environ.get(variable)
    if not value:
        return None
    path = Path(value)
    if value.startswith("~"):
        with suppress(RuntimeError):  # of a user that there is not: it stays a relative path, and is refused
            path = path.expanduser()
    if not path.is_absolute():
        raise InputError(
            f"{variable} is a relative path, so each working directory would get its own",
            value=value,
            next_step=f"Set {variable} to an absolute path.",
        )
    return path
