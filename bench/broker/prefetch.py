"""Compiling ahead: kernels that wait for the device go into the compile cache while another is measured."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress

from ...store.models import Kernel, Task
from ..header.signature import signatures
from ..lane import Lane
from ..languages.build import Build

CORES_LEFT_FREE = 2
"""For a process that measures and the one that launches for it: what they wait for is time on the device."""
MOST_ASKED = 128


class Prefetch:
    """Compiles kernels into the lane's cache ahead of their measurement. Threads may share it.

    Only where compiling leaves the times alone, in a device-only lane: elsewhere `ask` does nothing. At most `most`
    kernels wait or compile at once. threads: None leaves two cores free, and one for each of the `hands` that measure.
    """

    def __init__(self, lane: Lane, *, threads: int | None = None, most: int = MOST_ASKED, hands: int = 1) -> None:
        self._lane = lane
        self._most = most
        self._mutex = threading.Lock()
        self._asked: dict[str, Future[Build]] = {}
        self._threads: ThreadPoolExecutor | None = None
        if lane.lane == "device-only":
            cores = len(os.sched_getaffinity(0))
            count = threads or max(1, cores - CORES_LEFT_FREE - hands)
            self._threads = ThreadPoolExecutor(count, thread_name_prefix="kforecast-prefetch")

    def ask(self, kernel: Kernel, task: Task | None = None) -> bool:
        """Compile this kernel when a thread is free, if it does not wait already; False where too many wait, or where
        that is of no use.
        """
        with self._mutex:
            if self._threads is None or (kernel.id not in self._asked and len(self._asked) >= self._most):
                return False
            if kernel.id not in self._asked:
                self._asked[kernel.id] = self._threads.submit(self._compile, kernel, task)
        return True

    @property
    def is_open(self) -> bool:
        """Whether it compiles anything."""
        return self._threads is not None

    def is_asked(self, kernel_id: str) -> bool:
        """Whether it was asked to compile this kernel and is not done."""
        with self._mutex:
            return kernel_id in self._asked

    def settle(self, kernel_id: str) -> None:
        """To be called before compiling a kernel oneself: waits where its compilation runs, drops it where it only
        waits.

        Raises nothing: what went wrong there goes wrong again with the caller, who can say so.
        """
        with self._mutex:
            future = self._asked.get(kernel_id)
        if future is None:
            return
        if future.cancel():
            self._forget(kernel_id)
        else:
            wait([future])

    def finish(self, kernel: Kernel, task: Task | None = None) -> None:
        """Return when this kernel is compiled: waits where its compilation runs, else compiles it in this thread.

        Raises nothing, as `settle`.
        """
        with self._mutex:
            future = self._asked.get(kernel.id)
            if self._threads is None:
                return
        if future is not None and not future.cancel():
            wait([future])
            return
        with suppress(Exception):  # whoever measures the kernel compiles it, and says what is wrong
            self._compile(kernel, task)

    def close(self) -> None:
        """Drop what waits and wait for what runs. Idempotent; `ask` does nothing afterwards."""
        with self._mutex:
            threads, self._threads = self._threads, None
            self._asked.clear()
        if threads is not None:
            threads.shutdown(wait=True, cancel_futures=True)

    def _compile(self, kernel: Kernel, task: Task | None) -> Build:
        try:
            return self._lane.compile(kernel, signatures(kernel.source, kernel.language, kernel.includes), task)
        finally:
            self._forget(kernel.id)

    def _forget(self, kernel_id: str) -> None:
        with self._mutex:
            self._asked.pop(kernel_id, None)
