"""Asking for a measurement: a row first, then a wake, then the answer's row. Starts a broker where none serves."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...store import requests
from ...store.database import Store
from ...store.errors import DeviceError
from ...store.models import Request
from . import processes_alive
from .protocol import code_fingerprint, socket_path
from .server import log_path
from .service import Service

_START_S = 20.0
_ROW_EVERY_S = 2.0
"""How often the row is read although no line came: a broker that died took its lines with it."""
_ENDED = ("completed", "failed", "cancelled")

Progress = Callable[[str], None]


def wait(store: Store, request: Request, *, wait_s: float | None, on_progress: Progress) -> Request:
    """Wake the device's broker and wait until the request has ended, at most `wait_s` seconds (None: as long as it takes).

    Returns the request as it stands then. On KeyboardInterrupt the request is cancelled and the interrupt goes on.
    Raises DeviceError where no broker can be started.
    """
    deadline = None if wait_s is None else time.monotonic() + wait_s
    try:
        while True:
            with _connect(request.device, store) as line:
                line.send(f"watch {request.id}")
                ended = _follow(line, store, request, deadline, on_progress)
            if ended is not None:
                return ended
    except KeyboardInterrupt:
        cancel(store, request)
        raise


def cancel(store: Store, request: Request) -> Request:
    """Cancel a request wherever it stands and tell its broker; the device is free within a second or so."""
    row = requests.cancel(store, request.id)
    path = socket_path(request.device, store.path)
    try:
        with _Line(path) as line:
            line.send(f"cancel {request.id}")
    except OSError:
        pass  # no broker: then nobody works on it
    return row


def run_here(store: Store, request: Request, on_progress: Progress) -> Request:
    """Work the request off in this process (`--no-broker`). On KeyboardInterrupt the request is cancelled."""
    owner = processes_alive.owner_name("inline")
    claimed = requests.claim(store, request.id, owner)
    if claimed is None:  # a broker was faster: its answer is as good
        return wait(store, request, wait_s=None, on_progress=on_progress)
    service = Service(store, request.device, owner, lambda _, text: on_progress(text))
    try:
        service.run(claimed)
    except KeyboardInterrupt:
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
    line: _Line, store: Store, request: Request, deadline: float | None, on_progress: Progress
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


class _Line:
    """A connection to a broker, in lines."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._partial = b""
        try:
            self._socket.settimeout(5.0)
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise

    def send(self, text: str) -> None:
        try:
            self._socket.sendall(text.encode() + b"\n")
        except OSError:
            pass  # the next read finds the broker gone

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

    def __enter__(self) -> _Line:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()


@dataclass
class _Starting:
    process: subprocess.Popen[bytes]
    log: Path


def _connect(device: str, store: Store) -> _Line:
    """A connection to a broker of this very code; starts one, and retires one of older code, as needed."""
    path = socket_path(device, store.path)
    deadline = time.monotonic() + _START_S
    started: _Starting | None = None
    while True:
        try:
            line = _Line(path)
        except OSError:
            line = None
        if line is not None:
            hello = (line.read(5.0) or [""])[0].split(" ")
            if hello[0] == "hello" and hello[1] == code_fingerprint():
                return line
            line.send("retire")
            line.__exit__()
        if started is None or started.process.poll() is not None:
            if started is not None and time.monotonic() > deadline:
                break
            started = _start(device, store)
        if time.monotonic() > deadline:
            break
        time.sleep(0.03)
    tail = started.log.read_text(errors="replace")[-400:].strip() if started and started.log.exists() else ""
    raise DeviceError(
        f"the broker of {device} did not answer within {_START_S:g} s",
        value=tail or str(path),
        next_step="Try `--no-broker` to see the failure directly; `kforecast doctor` checks the machine.",
    )


def _start(device: str, store: Store) -> _Starting:
    log = log_path(device, store.path)
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "kforecast.bench.broker", device],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd="/",
            env={**os.environ, "KFORECAST_DB": str(store.path)},
            start_new_session=True,
        )
    return _Starting(process, log)
