"""The device lock: one process at a time uses a device, whichever store it works for; the file says who."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...store.clock import utc_now
from ...store.errors import DeviceError
from ...store.paths import runtime_dir
from ..faults import Cancelled

_LOOK_S = 0.02


def _path(device_id: str) -> Path:
    return runtime_dir() / f"device-{device_id}.lock"


@contextmanager
def device_lock(
    device_id: str, *, device: str, purpose: str, cancelled: Callable[[], bool] = lambda: False, wait_s: float = 3600.0
) -> Iterator[None]:
    """Hold the device; the kernel drops the lock when its holder dies, however it dies.

    Raises Cancelled while waiting when `cancelled()` turns true, DeviceError after `wait_s` seconds.
    """
    path = _path(device_id)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                pass  # somebody else measures: wait below
            if cancelled():
                raise Cancelled
            if time.monotonic() > deadline:
                raise DeviceError(
                    f"the device stayed in use for {wait_s:g} s",
                    value=f"{device}, held by {holder(device_id) or 'an unknown process'}",
                    next_step="See `kforecast status`; stop the holder, or try again later.",
                )
            time.sleep(_LOOK_S)
        record = {"pid": os.getpid(), "device": device, "purpose": purpose, "since": utc_now()}
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(record).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(file, 0)
    finally:
        os.close(file)


def holder(device_id: str) -> dict[str, Any] | None:
    """Who holds the device now: pid, device, purpose, since; None where nobody does."""
    try:
        file = os.open(_path(device_id), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(file, 4096, 0).decode(errors="replace")
            return dict(json.loads(text)) if text else {"pid": None, "device": None, "purpose": "", "since": None}
        return None
    finally:
        os.close(file)
