"""The broker's process: one per user, device and store. A thread works off requests; the main thread answers the socket."""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path

from ...store import requests
from ...store.database import Store
from ...store.errors import StoreError
from . import processes_alive
from .protocol import code_fingerprint, socket_path
from .service import MeasurePayload, Service

IDLE_S = float(os.environ.get("KFORECAST_BROKER_IDLE_S", "300"))
_TICK_S = 1.0
_GRACE_S = 1.0
"""How long a request outlives the client that vanished: a client that reconnects at once is not punished."""


class Broker:
    """Owns the queue of one device. Made once per process; `serve` returns when idle for `IDLE_S` or told to end."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.store = Store.open()
        self.owner = processes_alive.owner_name("broker")
        self._path = socket_path(device, self.store.path)
        self._service = Service(self.store, device, self.owner, self._on_progress, self._is_cancelled)
        self._selector = selectors.DefaultSelector()
        self._clients: dict[socket.socket, _Client] = {}
        self._lines: list[str] = []
        self._mutex = threading.Lock()
        self._cancelled: set[str] = set()
        self._forsaken: dict[str, float] = {}
        self._work = threading.Event()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._ending = False
        self._failure: BaseException | None = None
        self._last_active = time.monotonic()
        self._busy: str | None = None

    # -- the main thread -----------------------------------------------------------------------------------------

    def serve(self) -> int:
        """Serve until idle or told to end. Returns the exit code: 0, or 1 after a failure that the log describes."""
        listener = self._listen()
        if listener is None:
            return 0  # another broker serves already
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._end())
        requests.requeue_lost(self.store, self.device, processes_alive.is_alive)
        self._selector.register(listener, selectors.EVENT_READ, "listener")
        self._selector.register(self._wake_read, selectors.EVENT_READ, "wake")
        worker = threading.Thread(target=self._worker, name="kforecast-device", daemon=True)
        worker.start()
        self._work.set()
        try:
            while not self._ending:
                for key, _ in self._selector.select(_TICK_S):
                    if key.data == "listener":
                        self._accept(listener)
                    elif key.data == "wake":
                        os.read(self._wake_read, 65536)
                    else:
                        self._read(key.data)
                self._deliver()
                self._tick()
        finally:
            self._path.unlink(missing_ok=True)
            listener.close()
            self._ending = True
            if self._busy is not None:
                self._cancelled.add(self._busy)
            self._work.set()
            worker.join(timeout=30.0)
            self._service.close()
            self._deliver()
        return 0 if self._failure is None else 1

    def _listen(self) -> socket.socket | None:
        # The lock, not the socket file, decides who serves: a socket file outlives a killed broker.
        guard = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(guard)
            return None
        self._guard = guard  # kept open: the lock lives as long as this process
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            listener.bind(str(self._path))
        finally:
            os.umask(mask)
        listener.listen(64)
        listener.setblocking(False)
        return listener

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.setblocking(False)
        client = _Client(connection)
        self._clients[connection] = client
        self._selector.register(connection, selectors.EVENT_READ, client)
        client.send(f"hello {code_fingerprint()} {os.getpid()}")

    def _read(self, client: _Client) -> None:
        lines = client.read()
        for line in lines or ():
            word, _, rest = line.partition(" ")
            if word == "watch":
                client.watching.add(rest)
                self._forsaken.pop(rest, None)
                self._tell_if_over(rest)
            elif word == "cancel":
                self._cancelled.add(rest)
            elif word == "retire":
                self._retire()
            self._work.set()
        self._last_active = time.monotonic()
        if lines is None:
            self._selector.unregister(client.connection)
            del self._clients[client.connection]
            client.connection.close()
            for request_id in client.watching:
                if not any(request_id in other.watching for other in self._clients.values()):
                    self._forsaken[request_id] = time.monotonic()

    def _tell_if_over(self, request_id: str) -> None:
        """A request may have ended between its row and its watcher: say so at once."""
        row = requests.get(self.store, request_id)
        if row is not None and row.state in ("completed", "failed", "cancelled"):
            self._say(f"done {request_id}")

    def _tick(self) -> None:
        now = time.monotonic()
        for request_id, since in list(self._forsaken.items()):
            if now - since > _GRACE_S:
                del self._forsaken[request_id]
                row = requests.get(self.store, request_id)
                if row is not None and not MeasurePayload.model_validate(row.payload).detached:
                    self._cancelled.add(request_id)
                    if row.state == "queued":
                        requests.cancel(self.store, request_id)
        if self._failure is not None:
            self._end()
        if self._busy is not None or self._clients:
            self._last_active = now
        elif now - self._last_active > IDLE_S:
            self._end()

    def _retire(self) -> None:
        """Let the next broker, of newer code, take the queue: finish what runs, take nothing more."""
        self._path.unlink(missing_ok=True)
        self._end()

    def _end(self) -> None:
        self._ending = True

    def _deliver(self) -> None:
        with self._mutex:
            lines, self._lines = self._lines, []
        for line in lines:
            request_id = line.split(" ", 2)[1]
            for client in self._clients.values():
                if request_id in client.watching:
                    client.send(line)

    # -- the worker thread ---------------------------------------------------------------------------------------

    def _worker(self) -> None:
        try:
            while not self._ending:
                self._work.clear()
                request = requests.claim_next(self.store, self.device, self.owner)
                if request is None:
                    self._work.wait(_TICK_S)  # a client whose wake was lost is found within a tick
                    continue
                self._busy = request.id
                self._service.run(request)
                self._busy = None
                self._cancelled.discard(request.id)
                self._say(f"done {request.id}")
        except BaseException as error:  # noqa: BLE001  the thread's last act: hand the failure to the main thread, which ends
            self._failure = error
            traceback.print_exc(file=sys.stderr)
            os.write(self._wake_write, b"!")

    def _on_progress(self, request_id: str, text: str) -> None:
        self._say(f"progress {request_id} {text}")

    def _is_cancelled(self, request_id: str) -> bool:
        return request_id in self._cancelled

    def _say(self, line: str) -> None:
        with self._mutex:
            self._lines.append(line)
        try:
            os.write(self._wake_write, b".")
        except BlockingIOError:
            pass  # the pipe is full of wakes already


class _Client:
    """One connection: what it watches, and the bytes of a line that has not arrived whole."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.watching: set[str] = set()
        self._partial = b""

    def read(self) -> list[str] | None:
        """The lines that arrived; None where the client is gone."""
        try:
            data = self.connection.recv(65536)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        *lines, self._partial = (self._partial + data).split(b"\n")
        return [line.decode(errors="replace").strip() for line in lines]

    def send(self, line: str) -> None:
        try:
            self.connection.send(line.replace("\n", " ").encode() + b"\n")
        except OSError:
            pass  # gone, or not reading: rows are the truth, and its next read finds the end of the connection


def main(device: str) -> int:
    """Run a broker in this process."""
    try:
        return Broker(device).serve()
    except StoreError as error:
        print(f"broker: {error}", file=sys.stderr)  # noqa: T201  the broker's log file is its stderr
        return error.exit_code


def log_path(device: str, store_path: Path) -> Path:
    """Where the broker of this device and store writes what goes wrong."""
    return socket_path(device, store_path).with_suffix(".log")
