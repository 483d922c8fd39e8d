"""The device lock: who uses a device, whichever store he works for; the file says who.

One process at a time, or several that agreed to share the device and take turns on it (`bench.turns`).
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...store.clock import utc_now
from ...store.errors import DeviceError
from ...store.paths import runtime_dir
from ..faults import Cancelled
from ..turns import opened, turn
from . import processes_alive

_RECORDS, _RECORD_BYTES = 64, 4096
"""Each holder's record has a place of its own in the file."""
_PURPOSE = 500
_WRITTEN_S, _LOOK_S = 0.2, 0.002
"""How long a holder may have the lock without a record (it has just taken it, or is letting go), and between looks."""


def _path(device_id: str) -> Path:
    return runtime_dir() / f"device-{device_id}.lock"


@contextmanager
def device_lock(
    device_id: str,
    *,
    device: str,
    purpose: str,
    cancelled: Callable[[], bool] = lambda: False,
    wait_s: float = 3600.0,
    shared: bool = False,
    owner: str | None = None,
) -> Iterator[None]:
    """Hold the device; the kernel drops the lock when its holder dies, however it dies.

    shared: beside other processes that hold it so, each of which takes turns for what it runs there. owner: the name
    (`processes_alive`) of the process to stop if this is to end; None is this one.
    Raises Cancelled while waiting when `cancelled()` turns true, DeviceError after `wait_s` seconds.
    """

    def waiting(waited_s: float) -> None:
        if cancelled():
            raise Cancelled
        if waited_s > wait_s:
            raise DeviceError(
                f"the device stayed in use for {wait_s:g} s",
                value=f"{device}, held by {holder(device_id) or 'an unknown process'}",
                next_step="See `kforecast status`; stop the holder, or try again later.",
            )

    process = processes_alive.owner_name("holder")
    record = {
        "pid": int((owner or process).split(":")[1]),
        "process": process,
        "device": device,
        "purpose": purpose[:_PURPOSE],
        "shared": shared,
    }
    with turn(_path(device_id), alone=not shared, waiting=waiting) as file:
        if not shared:
            os.ftruncate(file, 0)
        place = _enter(file, {**record, "since": utc_now()}, _path(device_id))
        try:
            yield
        finally:
            os.pwrite(file, bytes(_RECORD_BYTES), place)


def _enter(file: int, record: dict[str, Any], path: Path) -> int:
    """Write a holder's record where none of a living process is; the place. Several may enter at once, each by itself:
    a second file is the door.
    """
    with opened(path.with_name(path.name + "-door")) as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        taken = _by_place(file)
        first = os.getpid() % _RECORDS
        places = [(first + n) % _RECORDS * _RECORD_BYTES for n in range(_RECORDS)]
        place = next((place for place in places if place not in taken), places[0])
        os.pwrite(file, json.dumps(record).encode().ljust(_RECORD_BYTES, b"\0"), place)
    return place


def holder(device_id: str) -> dict[str, Any] | None:
    """Who holds the device now: pid, device, purpose, since; None where nobody does.

    Of several that share it: who came first, with the purposes of all.
    """
    try:
        file = os.open(_path(device_id), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        records = _held_by(file)
    finally:
        os.close(file)
    if not records:
        return None
    first = min(records, key=lambda record: record["since"] or "")
    purposes = "; ".join(record["purpose"] for record in sorted(records, key=lambda record: record["purpose"]))
    return {name: first[name] for name in ("pid", "device", "since")} | {"purpose": purposes}


def _held_by(file: int) -> list[dict[str, Any]]:
    """The records of those who hold the lock of an open file; one that tells nothing where none has been written."""
    give_up = time.monotonic() + _WRITTEN_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            found = list(_by_place(file).values())
        else:
            return [record for record in _by_place(file).values() if record["shared"]]
        if found:
            return found
        if time.monotonic() > give_up:
            return [{"pid": None, "device": None, "purpose": "", "since": None}]
        time.sleep(_LOOK_S)


def _by_place(file: int) -> dict[int, dict[str, Any]]:
    """What living processes have written into the file."""
    whole = os.pread(file, _RECORDS * _RECORD_BYTES, 0)
    found: dict[int, dict[str, Any]] = {}
    for at in range(0, len(whole), _RECORD_BYTES):
        with suppress(ValueError):  # nothing there, or it is being written just now
            found[at] = json.loads(whole[at : at + _RECORD_BYTES].rstrip(b"\0"))
    # A broker of before there were several holders writes no `process`.
    return {at: record for at, record in found.items() if processes_alive.is_alive(record.get("process", ""))}
