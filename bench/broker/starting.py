"""Brokers as a client sees them: finds the one that serves, or starts one, and talks to it in lines.

Imports little: a client that will measure starts its broker before it reads anything, see `start_ahead`.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...store.errors import DeviceError, StoreError
from ...store.paths import STORE_VARIABLE
from . import guard
from .protocol import OPEN, address, fingerprint, idle_s, log_path, socket_path, wanted_hands

_START_S = 20.0
_AGAIN_S = 1.0
"""How soon a broker is started again after one that found another in its place, which then was gone too."""
_LOOK_S = 0.02

Progress = Callable[[str], None]


class Line:
    """A connection to a broker, in lines."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._partial = b""
        try:
            self._socket.settimeout(5.0)
            with address(path) as name:
                self._socket.connect(name)
        except OSError:
            self._socket.close()
            raise

    def send(self, text: str) -> None:
        with suppress(OSError):  # the next read finds the broker gone
            self._socket.sendall(text.encode() + b"\n")

    def read(self, timeout_s: float) -> list[str] | None:
        """Lines that came within `timeout_s` seconds; None where the broker is gone."""
        ready, _, _ = select.select([self._socket], [], [], timeout_s)
        if not ready:
            return []
        try:
            data = self._socket.recv(65536)
        except OSError:
            return None
        if not data:
            return None
        *lines, self._partial = (self._partial + data).split(b"\n")
        return [text.decode(errors="replace") for text in lines]

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@dataclass
class _Starting:
    """A broker that this client has started, and where in the log its words begin."""

    process: subprocess.Popen[bytes]
    log: Path
    log_begin: int
    at: float

    def failed(self) -> bool:
        """It ended by itself and not because another broker serves. A kill is no failure: the next one may live."""
        code = self.process.poll()
        return code is not None and code > 0

    def to_be_repeated(self) -> bool:
        """It ended, and whatever made it end may be over by now."""
        return self.process.poll() is not None and time.monotonic() - self.at > _AGAIN_S

    def words(self) -> str:
        """The end of what it wrote to its log."""
        with self.log.open("rb") as file:
            file.seek(self.log_begin)
            return file.read().decode(errors="replace")[-600:].strip()


def connect(
    device: str,
    store_path: Path,
    deadline: float | None,
    on_progress: Progress,
    *,
    opens: Callable[[], bool] = lambda: False,
    wanted: str = "",
) -> Line | None:
    """A connection to a broker of this very code and environment; starts one, and retires one of another, as needed.

    None where `deadline` (of `time.monotonic`) passes first. A broker that retires is waited for: it finishes its work.
    opens: asked of a broker that is to be started, whether it opens its device at once, in the device-only lane.
    wanted: the fingerprint of this code and environment, where it was made just now.
    Raises InputError where the environment says of brokers what they cannot be, DeviceError where none can be started,
    StoreError where it cannot use the store.
    """
    idle_s(), wanted_hands()  # here: what a broker says as it starts, only its log hears
    path = socket_path(device, store_path)
    give_up = time.monotonic() + _START_S
    started: _Starting | None = None
    while True:
        line = _greeted(path, wanted)
        if line is not None:
            return line
        retiring = not path.exists() and guard.is_held(path)
        if started is None or started.to_be_repeated():
            started = _start_once(device, store_path, opens=opens())
        elif started.failed():
            raise _failure(device, started, f"ended with code {started.process.returncode} as it started")
        elif retiring and time.monotonic() > give_up - _START_S / 2:
            on_progress("waiting for a broker of another version or environment to finish")
            give_up = time.monotonic() + _START_S
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            return None
        if now > give_up:
            raise _failure(device, started, f"did not answer within {_START_S:g} s")
        time.sleep(_LOOK_S)


def start_ahead(device: str, store_path: Path, *, opens: bool) -> None:
    """Start a broker, where none serves, before there is a request; returns at once, and `connect` finds it.

    opens: it opens its device at once, in the device-only lane. Raises InputError where the environment says of brokers
    what they cannot be, OSError where no process can be started.
    """
    idle_s(), wanted_hands()
    path = socket_path(device, store_path)
    if not path.exists() and not guard.is_held(path):
        _start_once(device, store_path, opens=opens)


def _greeted(path: Path, wanted: str) -> Line | None:
    """A connection to the broker at this socket, None where none answers or where it had to be told to retire."""
    try:
        line = Line(path)
    except OSError:
        return None
    hello = (line.read(5.0) or [""])[0].split(" ")
    if hello[0] == "hello" and len(hello) == 3:
        if hello[1] == wanted or hello[1] == fingerprint():
            return line
        line.send("retire")
    line.close()
    return None


def _failure(device: str, started: _Starting, how: str) -> DeviceError | StoreError:
    words = started.words() or str(started.log)
    if started.process.poll() == StoreError.exit_code:
        return StoreError(
            f"the broker of {device} cannot use the store",
            value=words,
            next_step="Put that right, then measure again; nothing stored was lost.",
        )
    return DeviceError(
        f"the broker of {device} {how}",
        value=words,
        next_step="Try `--no-broker` to see the failure directly; `kforecast doctor` checks the machine.",
    )


_latest: dict[Path, _Starting] = {}
_latest_lock = threading.Lock()


def _start_once(device: str, store_path: Path, *, opens: bool) -> _Starting:
    """The broker that this process started last, if it still runs, else a new one: a hundred threads that find none
    start one together."""
    path = socket_path(device, store_path)
    with _latest_lock:
        latest = _latest.get(path)
        if latest is None or latest.process.poll() is not None:
            latest = _latest[path] = _start(device, store_path, opens)
        return latest


def _start(device: str, store_path: Path, opens: bool) -> _Starting:
    log = log_path(device, store_path)
    with log.open("ab") as sink:
        begin = sink.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "kforecast.bench.broker", device, *([OPEN] if opens else [])],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd="/",
            env={**os.environ, STORE_VARIABLE: str(store_path)},
            start_new_session=True,
        )
    # It outlives this client, or this client it: then somebody must reap it.
    threading.Thread(target=process.wait, name="kforecast-reaper", daemon=True).start()
    return _Starting(process, log, begin, time.monotonic())
