"""Messages between a session and its two helper processes: length-prefixed JSON over a socket, with deadlines.

JSON, never pickle: what a process that ran untrusted device code sends must not be able to run anything here.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from ...faults import Cancelled

_LENGTH = struct.Struct("!I")
_SLICE_S = 0.2
MOST_BYTES = 64 << 20


class ChannelClosed(Exception):
    """The process at the other end is gone."""


class ChannelDeadline(Exception):
    """No answer came in time."""


class Channel:
    """One end of a stream socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, message: dict[str, Any]) -> None:
        """Send one message. Raises ChannelClosed."""
        data = json.dumps(message, separators=(",", ":")).encode()
        try:
            self._connection.sendall(_LENGTH.pack(len(data)) + data)
        except OSError as error:
            raise ChannelClosed from error

    def receive(self, deadline_s: float | None = None, cancelled: Callable[[], bool] = lambda: False) -> dict[str, Any]:
        """The next message. Raises ChannelClosed, ChannelDeadline after `deadline_s` seconds, Cancelled."""
        until = None if deadline_s is None else time.monotonic() + deadline_s
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size, until, cancelled))
        if length > MOST_BYTES:
            raise ChannelClosed
        message = json.loads(self._exactly(length, until, cancelled))
        if not isinstance(message, dict):
            raise ChannelClosed
        return message

    def _exactly(self, size: int, until: float | None, cancelled: Callable[[], bool]) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            left = _SLICE_S if until is None else min(_SLICE_S, until - time.monotonic())
            ready, _, _ = select.select([self._connection], [], [], max(left, 0.0))
            if not ready:
                if cancelled():
                    raise Cancelled
                if until is not None and time.monotonic() >= until:
                    raise ChannelDeadline
                continue
            try:
                data = self._connection.recv(size - len(parts))
            except OSError as error:
                raise ChannelClosed from error
            if not data:
                raise ChannelClosed
            parts += data
        return bytes(parts)

    def close(self) -> None:
        self._connection.close()
