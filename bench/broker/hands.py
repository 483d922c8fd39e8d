"""The hands of a broker: itself, and processes that measure on its device in its stead, started when requests wait.

Processes, as threads share an interpreter: a second thread that compiles and writes up while the first one measures
gives no more kernels a second, and the device is held longer.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from ...store import requests
from ...store.database import Store
from ...store.errors import DeviceError, StoreError
from ...store.models import Request
from ...store.paths import STORE_VARIABLE
from ..faults import Cancelled
from .lines import Lines
from .matching import Matching
from .protocol import log_path
from .service import Service
from .shares import sharers_of
from .waiting import Queue

if TYPE_CHECKING:
    from ..devices.cuda.ahead import StartedAhead

_LOOK_S = 0.1
_READY_S = 120.0
_END_S = 30.0
_AGAIN_S = 60.0
"""How soon another start is tried after one that failed."""


class Hands:
    """Works off the requests of one device on one store, as many at once as there are hands; a thread for each.

    The first hand is this process itself. The others are processes of their own, `count` as well, started when requests
    wait; once there are some, they are preferred, as this process has the queue to see to, and whoever times should not
    wait for its interpreter. on_progress, cancelled, started: as a Service's. kind, is_watched: as a Queue's. on_hand:
    told when a hand was started. others: the hands but the first.
    """

    def __init__(
        self,
        store: Store,
        device: str,
        owner: str,
        count: int,
        on_progress: Callable[[str, str], None] = lambda request_id, text: None,
        cancelled: Callable[[str], bool] = lambda request_id: False,
        started: StartedAhead | None = None,
        *,
        kind: str = "",
        is_watched: Callable[[str], bool] = lambda request_id: False,
        on_hand: Callable[[], None] = lambda: None,
    ) -> None:
        self.count = count
        self._most_others = sharers_of(count) - 1
        self.first = Service(store, device, owner, on_progress, cancelled, sharers_of(count), started)
        self._busy = 0
        self._queue = Queue(store, device, kind, is_watched, count, self.first)
        self._on_hand = on_hand
        self._idle: list[Service | Hand] = [self.first]
        self._matching: Matching[Service | Hand] = Matching(self.first)
        self.others: list[Hand] = []
        self._free = threading.Condition()
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="kforecast-starter")
        self._starting = self._closing = False
        self._not_before = 0.0

    def next(self) -> tuple[Request, Service | Hand] | None:
        """Begin the request that is measured next, for the hand that it gets (`Matching`); both are for `work_off`.
        None where nothing waits that a hand could measure now. Raises StoreError.
        """
        with self._free:
            self._forget_dead()
            while self._busy < self.count and not self._closing:
                waiting = self._queue.look()
                pair = self._matching.next(waiting, self._idle)
                if pair is None:
                    if not self._idle and any(not one.needs.hosted for one in waiting):
                        self._start_another()
                    break
                one, hand = pair
                begun = requests.claim(self.first.store, one.id, self.first.owner)
                if begun is None:
                    continue  # cancelled just now
                self._matching.given(one, hand, waiting, self._idle)
                self._queue.compile_ahead(one)
                self._idle.remove(hand)
                self._busy += 1
                return begun, hand
        return None

    def work_off(self, request: Request, hand: Service | Hand) -> None:
        """As `Service.work_off`, on the hand that `next` gave. One that dies fails the request it had."""
        try:
            if self.count > 1:
                self.first.compile_first(request)
            hand.work_off(request)
        finally:
            self.give_back(hand)

    def open_ahead(self) -> None:
        """As `Service.open_ahead`, on the first hand."""
        self.first.open_ahead()

    def compile_ahead(self, request: Request) -> None:
        """As `Service.compile_ahead`; what is compiled serves every hand."""
        self.first.compile_ahead(request)

    def get_ready(self) -> None:
        """Start every hand now, and return once the device is warm for all of them."""
        self.first.get_ready()
        with self._free:
            while len(self.others) < self._most_others:
                self._start_another()
                if time.monotonic() < self._not_before:
                    raise DeviceError("a hand does not start", next_step="The traceback is in the log above.")
                self._free.wait(_LOOK_S)

    def close(self) -> None:
        """End every helper process of the device, once nobody measures, and the other hands."""
        with self._free:
            self._closing = True
            self._free.wait_for(lambda: not self._starting)
        for hand in self.others:
            hand.close()
        self._starter.shutdown()
        self.first.close()

    def give_back(self, hand: Service | Hand) -> None:
        """The hand is free again; one that died is forgotten."""
        with self._free:
            self._busy -= 1
            self._idle.append(hand)  # the one that worked last is taken first
            self._forget_dead()
            self._free.notify_all()

    def _forget_dead(self) -> None:
        """Those who died while they were idle, too: they would fail the next request, which has no part in it."""
        for hand in [hand for hand in self._idle if isinstance(hand, Hand) and not hand.alive]:
            self._idle.remove(hand)
            self.others.remove(hand)
            self._matching.forget(hand)
            hand.close()

    def _start_another(self) -> None:
        """In the starter's thread, which outlives the hands: a process is killed with the thread that started it
        (`die_with_parent`).
        """
        if self._starting or self._closing or len(self.others) >= self._most_others:
            return
        if time.monotonic() >= self._not_before:
            self._starting = True
            self._starter.submit(self._start)

    def _start(self) -> None:
        hand = None
        try:
            hand = Hand(self.first)
            hand.wait_until_ready(lambda: self._closing)
        except Exception:  # noqa: BLE001  there are others: the requests go to them
            if not self._closing:
                traceback.print_exc(file=sys.stderr)
            if hand is not None:
                hand.close()
                hand = None
        with self._free:
            self._starting = False
            if hand is None:
                self._not_before = time.monotonic() + _AGAIN_S
            else:
                self.others.append(hand)
                self._idle.append(hand)
            self._free.notify_all()
        self._on_hand()


class Hand:
    """A hand in a process of its own, seen from its broker; `first`: the broker's own service. See `broker.hand`."""

    def __init__(self, first: Service) -> None:
        self._first = first
        ours, theirs = socket.socketpair()
        self._lines = Lines(ours)
        with theirs:
            arguments = [str(theirs.fileno()), first.device, first.owner, str(first.sharers)]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kforecast.bench.broker.hand", *arguments],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                cwd="/",
                env={**os.environ, STORE_VARIABLE: str(first.store.path), "TMPDIR": tempfile.gettempdir()},
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Negative for a signal; None while it lives."""
        return self._process.poll()

    def wait_until_ready(self, given_up: Callable[[], bool]) -> None:
        """Returns when the device is warm for this hand. Raises DeviceError where it does not come to that."""
        until = time.monotonic() + _READY_S
        while not given_up() and time.monotonic() < until:
            came = self._lines.read(_LOOK_S)
            if came:
                return
            if came is None:
                break
        raise DeviceError(
            "a hand of the broker did not start",
            value=f"pid {self.pid}",
            next_step=f"See {log_path(self._first.device, self._first.store.path)}.",
        )

    def work_off(self, request: Request) -> None:
        """As `Service.work_off`."""
        self._lines.send("run", request.id)
        asked_to_stop = False
        while True:
            came = self._lines.read(_LOOK_S)
            if came is None:
                return self._died(request)
            for word, *rest in came:
                if word == "progress":
                    self._first.on_progress(*rest)
                elif word == "done":
                    return None
                elif word == "cancelled":
                    raise Cancelled
                elif word == "unusable":
                    error = rest[0]
                    raise StoreError(error["what"], value=error["value"], next_step=error["next"])
            if not asked_to_stop and self._first.cancelled(request.id):
                self._lines.send("cancel")
                asked_to_stop = True

    def _died(self, request: Request) -> None:
        self._end()
        if self._first.cancelled(request.id):
            raise Cancelled
        error = DeviceError(
            "the process that measured died",
            value=f"pid {self.pid}, exit status {self._process.returncode}",
            next_step=f"Measure again; {log_path(self._first.device, self._first.store.path)} may tell more.",
        )
        requests.fail(self._first.store, request.id, error.as_dict(), owner=self._first.owner)

    def close(self) -> None:
        """Let the process end what it has started, and reap it. Idempotent."""
        self._lines.end()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_END_S)
        self._end()
        self._lines.close()

    def _end(self) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
