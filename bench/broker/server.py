"""The broker's process: one per user, device, store. A thread for each hand works off the queue, the main thread the
socket.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

from ...store import requests
from ...store.database import Store
from ...store.errors import KforecastError
from ...store.models import Request
from ..faults import Cancelled
from . import processes_alive
from .hands import Hand, Hands
from .protocol import address, fingerprint, idle_s, socket_path
from .shares import hands_for

if TYPE_CHECKING:
    from ..devices.cuda.ahead import StartedAhead
    from .service import Service

_TICK_S = 1.0
_GRACE_S = 1.0
"""How long a request outlives the client that vanished: a client that reconnects at once is not punished."""
_END_S = 30.0
_UNASKED_S = 60.0
"""How long a broker stays that nobody asks for anything: it was started ahead for a file that turned out bad."""


class Broker:
    """Owns the queue of one device. Made once per process; `serve` returns when idle for long enough or told to end.

    This process has the right to serve (`broker.guard`). opens: the device is opened at once, in its device-only lane,
    instead of with the first request. started: helper processes for that lane.
    """

    def __init__(self, device: str, *, opens: bool = False, started: StartedAhead | None = None) -> None:
        self.device = device
        self._opens = opens
        self._fingerprint = fingerprint()  # now: of the code that runs, whatever lies on the disk later
        self.store = Store.open()
        self.owner = processes_alive.owner_name("broker")
        self._path = socket_path(device, self.store.path)
        count, self._idle_s = hands_for(device), idle_s()
        self._work = threading.Event()
        self._hands = Hands(
            self.store,
            device,
            self.owner,
            count,
            self._on_progress,
            self._is_cancelled,
            started,
            kind=self._fingerprint,
            is_watched=self._is_watched,
            on_hand=self._work.set,
        )
        self._selector = selectors.DefaultSelector()
        self._clients: dict[socket.socket, _Client] = {}
        self._lines: list[str] = []
        self._mutex = threading.Lock()
        self._cancelled: set[str] = set()
        self._forsaken: dict[str, float] = {}
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._ending = False
        self._retiring = False
        self._failure: BaseException | None = None
        self._last_active = time.monotonic()
        self._busy: set[str] = set()
        self._asked = False
        # All leave together: the device's helper processes are killed with the thread that started them.
        self._leaving = threading.Barrier(count, action=self._end)

    # -- the main thread -----------------------------------------------------------------------------------------

    def serve(self) -> int:
        """Serve until idle or told to end. Returns the exit code: 0, or the failure's, which the log describes."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._end())
        requests.requeue_lost(self.store, self.device, processes_alive.is_alive)
        listener = self._listen()
        self._selector.register(listener, selectors.EVENT_READ, "listener")
        self._selector.register(self._wake_read, selectors.EVENT_READ, "wake")
        workers = [
            threading.Thread(target=self._worker, args=(self._opens and n == 0,), name=f"kforecast-{n}", daemon=True)
            for n in range(self._hands.count)
        ]
        for worker in workers:
            worker.start()
        try:
            while not self._ending:
                for key, _ in self._selector.select(self._pause()):
                    if key.data == "listener":
                        self._accept(listener)
                    elif key.data == "wake":
                        os.read(self._wake_read, 65536)
                    else:
                        self._read(key.data)
                if self._retiring and listener.fileno() >= 0:
                    self._selector.unregister(listener)
                    listener.close()
                self._deliver()
                self._tick()
                if self._failure is not None:
                    self._end()
        finally:
            self._path.unlink(missing_ok=True)
            listener.close()
            self._end()
            self._work.set()
            until = time.monotonic() + _END_S
            for worker in workers:
                worker.join(max(0.0, until - time.monotonic()))
            self._hands.close()
            self._deliver()
        return 0 if self._failure is None else _exit_code(self._failure)

    def _listen(self) -> socket.socket:
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            with address(self._path) as name:
                listener.bind(name)
        finally:
            os.umask(mask)
        listener.listen(64)
        listener.setblocking(False)
        return listener

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # gone before it was let in
        self._asked = True
        connection.setblocking(False)
        client = _Client(connection)
        with self._mutex:
            self._clients[connection] = client
        self._selector.register(connection, selectors.EVENT_READ, client)
        client.send(f"hello {self._fingerprint} {os.getpid()}")

    def _read(self, client: _Client) -> None:
        lines = client.read()
        for line in lines or ():
            word, _, rest = line.partition(" ")
            if word == "watch":
                client.watching.add(rest)
                self._forsaken.pop(rest, None)
                self._welcome(rest)
            elif word == "leave":
                client.watching.discard(rest)
                if not self._is_watched(rest):
                    self._forsaken[rest] = time.monotonic() - _GRACE_S
            elif word == "cancel":
                self._cancelled.add(rest)
            elif word == "retire":
                self._retire()
            self._work.set()
        self._last_active = time.monotonic()
        if lines is None:
            self._selector.unregister(client.connection)
            with self._mutex:
                del self._clients[client.connection]
            client.connection.close()
            for request_id in client.watching:
                if not self._is_watched(request_id):
                    self._forsaken[request_id] = time.monotonic()

    def _welcome(self, request_id: str) -> None:
        """A request may have ended between its row and its watcher: say so at once. If it must wait, use the time."""
        row = requests.get(self.store, request_id)
        if row is not None and row.state in ("completed", "failed", "cancelled"):
            self._say(f"done {request_id}")
        elif row is not None and row.state == "queued" and self._busy:
            self._hands.compile_ahead(row)

    def _pause(self) -> float:
        """Seconds until something is due though no line came."""
        due = min(self._forsaken.values(), default=float("inf")) + _GRACE_S - time.monotonic()
        return min(max(due, 0.01), _TICK_S)

    def _tick(self) -> None:
        now = time.monotonic()
        for request_id, since in list(self._forsaken.items()):
            if now - since >= _GRACE_S:
                del self._forsaken[request_id]
                row = requests.get(self.store, request_id)
                if row is not None and row.state in ("queued", "working") and not _is_detached(row):
                    self._cancelled.add(request_id)
                    if row.state == "queued":
                        requests.cancel(self.store, request_id)
        stays_s = self._idle_s if self._asked else min(self._idle_s, _UNASKED_S)
        if self._busy or self._clients:
            self._last_active = now
        elif now - self._last_active > stays_s and not self._has_work():
            self._end()

    def _has_work(self) -> bool:
        """Whether something waits, what is left to another broker as well: it may be this one's in a moment. Or is in
        hand: it may have been begun just now.
        """
        rows = requests.unfinished(self.store, device=self.device)
        return any(row.state == "queued" or row.owner == self.owner for row in rows)

    def _retire(self) -> None:
        """Let the next broker, of other code or environment, take the queue: finish what runs, take nothing more."""
        self._path.unlink(missing_ok=True)
        self._retiring = True

    def _end(self) -> None:
        """End now: what runs goes back into the queue."""
        self._ending = True
        self._wake()

    def _deliver(self) -> None:
        with self._mutex:
            lines, self._lines = self._lines, []
        for line in lines:
            request_id = line.split(" ", 2)[1]
            for client in self._clients.values():
                if request_id in client.watching:
                    client.send(line)

    # -- a worker thread -----------------------------------------------------------------------------------------

    def _worker(self, opens: bool) -> None:
        try:
            if opens:
                self._hands.open_ahead()
            while not (self._ending or self._retiring):
                self._work.clear()
                found = self._hands.next()
                if found is None:
                    # A client whose wake was lost, and what another process began and left, is found within a tick.
                    if not requests.requeue_lost(self.store, self.device, processes_alive.is_alive):
                        self._work.wait(_TICK_S)
                    continue
                request, hand = found
                self._asked = True
                self._work.set()  # there may be more, for other threads that wait
                self._busy.add(request.id)
                try:
                    self._work_off(request, hand)
                finally:
                    self._busy.discard(request.id)
                self._cancelled.discard(request.id)
                self._say(f"done {request.id}")
        except BaseException as error:  # noqa: BLE001  the thread's last act: hand the failure to the main thread, which ends
            self._failure = error
            _log_traceback()
        finally:
            self._wake()
            self._leaving.wait()

    def _work_off(self, request: Request, hand: Service | Hand) -> None:
        if not self._is_wanted(request):
            self._hands.give_back(hand)
            requests.cancel(self.store, request.id)
            return
        try:
            self._hands.work_off(request, hand)
        except Cancelled:
            if self._ending and request.id not in self._cancelled:
                requests.requeue_lost(self.store, self.device, lambda owner: owner != self.owner)
            else:
                requests.cancel(self.store, request.id)

    def _is_wanted(self, request: Request) -> bool:
        """Not where the client that asked died before it could watch, and nobody else watches."""
        return _is_detached(request) or not processes_alive.is_gone(request.client) or self._is_watched(request.id)

    def _is_watched(self, request_id: str) -> bool:
        with self._mutex:
            return any(request_id in client.watching for client in self._clients.values())

    def _on_progress(self, request_id: str, text: str) -> None:
        self._say(f"progress {request_id} {text}")

    def _is_cancelled(self, request_id: str) -> bool:
        return self._ending or request_id in self._cancelled

    def _say(self, line: str) -> None:
        with self._mutex:
            self._lines.append(line)
        self._wake()

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # the pipe is full of wakes already
            os.write(self._wake_write, b".")


def _log_traceback() -> None:
    """The traceback of what is being handled, if the log can be written: a full disk may be what went wrong."""
    with suppress(OSError):
        traceback.print_exc(file=sys.stderr)


def _is_detached(request: Request) -> bool:
    return bool(request.payload.get("detached"))


def _exit_code(failure: BaseException) -> int:
    return failure.exit_code if isinstance(failure, KforecastError) else 1


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
        # Gone, or not reading: rows are the truth, and its next read finds the end of the connection.
        with suppress(OSError):
            self.connection.send(line.replace("\n", " ").encode() + b"\n")
