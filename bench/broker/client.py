"""Asking for a measurement: a row first, then a wake, then the answer's row. Starts a broker where none serves."""

from __future__ import annotations

import time

from ...store import requests
from ...store.database import Store
from ...store.errors import DeviceError, InputError, StoreError
from ...store.models import Request
from . import processes_alive
from .interrupts import remembered_interrupts
from .needs import needs_of
from .protocol import socket_path
from .starting import Line, Progress, connect

_ROW_EVERY_S = 2.0
"""How often the row is read although no line came: a broker that died took its lines with it."""
_ENDED = ("completed", "failed", "cancelled")


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
            line = connect(
                request.device,
                store.path,
                deadline,
                on_progress,
                opens=lambda: not needs_of(store, request).hosted,
                wanted=str(request.payload.get("broker", "")),
            )
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
