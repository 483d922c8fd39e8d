"""A limit on calls in flight across processes: n lock files, which the kernel frees when their holder dies."""

from __future__ import annotations

import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .protocol import ForecasterError

_PAUSE_S = 0.02


class FileSlots:
    """At most `count` holders at a time among all processes that name the same directory."""

    def __init__(self, directory: Path, count: int, *, timeout_s: float = 600.0) -> None:
        self._paths = [directory / f"slot-{number}.lock" for number in range(count)]
        self._timeout_s = timeout_s
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Hold one slot. Raises ForecasterError after the timeout."""
        deadline = time.monotonic() + self._timeout_s
        while (descriptor := self._take()) is None:
            if time.monotonic() > deadline:
                raise ForecasterError(
                    "All slots for calls to the model stayed taken",
                    value=f"{len(self._paths)} for {self._timeout_s:g} s",
                    next_step="Wait for the other searches, or allow more calls at a time.",
                )
            time.sleep(_PAUSE_S * random.uniform(0.5, 1.5))
        try:
            yield
        finally:
            os.close(descriptor)

    def _take(self) -> int | None:
        """The descriptor of a free slot, locked, or None."""
        for path in random.sample(self._paths, len(self._paths)):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
            else:
                return descriptor
        return None
