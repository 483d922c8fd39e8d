"""Asking for a measurement: a row first, then a wake, then the answer's row. Starts a broker where none serves."""

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

from ...store import requests
from ...store.database import Store
from ...store.errors import DeviceError, InputError, StoreError
from ...store.models import Request
from . import guard, processes_alive
from .interrupts import remembered_interrupts
from .protocol import address, fingerprint, idle_s, log_path, socket_path, wanted_hands

_START_S = 20.0
_AGAIN_S = 1.0
"""How soon a broker is started again after one that found another in its place, which then was gone too."""
_LOOK_S = 0.02
_ROW_EVERY_S = 2.0
"""How often the row is read although no line came: a broker that died took its lines with it."""
_ENDED = ("completed", "failed", "cancelled")

Progress = Callable[[str], None]


def wait(store: Store, request: Request, *, wait_s: float | None, on_progress: Progress) -> Request:
    """Wake the device's broker and wait until the request has ended, at most `wait_s` seconds (None: without end).

    Returns the request as it stands then. On KeyboardInterrupt the request is cancelled and the interrupt goes on.
    Raises InputError where the environment says of brokers what they cannot be, DeviceError where none can be started,
    StoreError where it cannot use the store; a request that is not detached is cancelled after the first two.
    """
    deadline = None if wait_s is None else time.monotonic() + wait_s
    if request.state in _ENDED:
        return request
    try:
        while True:
            line = connect(request.device, store, deadline, on_progress)
            if line is None:
                return _row(store, request)
            with line:
                line.send(f"watch {request.id}")
                ended = _follow(line, store, request, deadline, on_progress)
            if ended is not None:
                return ended
    except KeyboardInterrupt:
        cancel(store, request)
        raise
    except (DeviceError, InputError):
        if not request.payload.get("detached"):
            cancel(store, request)
        raise


def cancel(store: Store, request: Request) -> Request:
    """Cancel a request wherever it stands and tell its broker; the device is free within a second or so."""
    row = requests.cancel(store, request.id)
    try:
        with Line(socket_path(request.device, store.path)) as line:
            line.send(f"cancel {request.id}")
    except OSError:
        pass  # no broker: then nobody works on it
    return row


def run_here(store: Store, request: Request, on_progress: Progress) -> Request:
    """Work the request off in this process (`--no-broker`). On KeyboardInterrupt the request is cancelled."""
    from ..faults import Cancelled
    from .service import Service

    if request.state in _ENDED:
        return request
    for lost in requests.requeue_lost(store, request.device, processes_alive.is_alive):
        if processes_alive.is_gone(lost.client) and not lost.payload.get("detached"):
            requests.cancel(store, lost.id)
    owner = processes_alive.owner_name("inline")
    claimed = requests.claim(store, request.id, owner)
    if claimed is None:  # a broker was faster: its answer is as good
        return wait(store, _row(store, request), wait_s=None, on_progress=on_progress)
    with remembered_interrupts() as interrupted:
        service = Service(store, request.device, owner, lambda _, text: on_progress(text), lambda _: interrupted())
        try:
            service.run(claimed)
        except Cancelled:
            requests.cancel(store, request.id)
            if interrupted():
                raise KeyboardInterrupt from None
        except StoreError:
            raise  # nothing can be written, this row's end neither
        except BaseException:
            requests.cancel(store, request.id)
            raise
        finally:
            service.close()
    return _row(store, request)


def _row(store: Store, request: Request) -> Request:
    row = requests.get(store, request.id)
    assert row is not None, "requests are never deleted while they are waited for"
    return row


def _follow(
    line: Line, store: Store, request: Request, deadline: float | None, on_progress: Progress
) -> Request | None:
    """Read lines until the request has ended or the deadline passed; None where the broker went away."""
    while True:
        left = _ROW_EVERY_S if deadline is None else min(_ROW_EVERY_S, deadline - time.monotonic())
        lines = line.read(max(left, 0.0))
        for text in lines or ():
            word, _, rest = text.partition(" ")
            if word == "progress":
                on_progress(rest.partition(" ")[2])
        over = deadline is not None and time.monotonic() >= deadline
        if lines is None or not lines or over or any(text.startswith("done ") for text in lines):
            row = _row(store, request)
            if row.state in _ENDED or over:
                return row
        if lines is None:
            return None


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


def connect(device: str, store: Store, deadline: float | None, on_progress: Progress) -> Line | None:
    """A connection to a broker of this very code and environment; starts one, and retires one of another, as needed.

    None where `deadline` (of `time.monotonic`) passes first. A broker that retires is waited for: it finishes its work.
    Raises InputError where the environment says of brokers what they cannot be, DeviceError where none can be started,
    StoreError where it cannot use the store.
    """
    idle_s(), wanted_hands()  # here: what a broker says as it starts, only its log hears
    path = socket_path(device, store.path)
    give_up = time.monotonic() + _START_S
    started: _Starting | None = None
    while True:
        line = _greeted(path)
        if line is not None:
            return line
        retiring = not path.exists() and guard.is_held(path)
        if started is None or started.to_be_repeated():
            started = _start_once(device, store)
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


def _greeted(path: Path) -> Line | None:
    """A connection to the broker at this socket, None where none answers or where it had to be told to retire."""
    try:
        line = Line(path)
    except OSError:
        return None
    hello = (line.read(5.0) or [""])[0].split(" ")
    if hello[0] == "hello" and len(hello) == 3:
        if hello[1] == fingerprint():
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


def _start_once(device: str, store: Store) -> _Starting:
    """The broker that this process started last, if it still runs, else a new one: a hundred threads that find none
    start one together."""
    path = socket_path(device, store.path)
    with _latest_lock:
        latest = _latest.get(path)
        if latest is None or latest.process.poll() is not None:
            latest = _latest[path] = _start(device, store)
        return latest


def _start(device: str, store: Store) -> _Starting:
    log = log_path(device, store.path)
    with log.open("ab") as sink:
        begin = sink.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "kforecast.bench.broker", device],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd="/",
            env={**os.environ, "KFORECAST_DB": str(store.path)},
            start_new_session=True,
        )
    # It outlives this client, or this client it: then somebody must reap it.
    threading.Thread(target=process.wait, name="kforecast-reaper", daemon=True).start()
    return _Starting(process, log, begin, time.monotonic())
