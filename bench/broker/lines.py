"""Words between a broker and its hands: lines of JSON over a stream socket, both ways."""

from __future__ import annotations

import json
import select
import socket
from contextlib import suppress
from typing import Any


class Lines:
    """One end of the socket. One thread may send while another one reads."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._partial = b""

    def send(self, *words: Any) -> None:
        """Send words that are plain JSON data. Where the other end is gone, the next `read` says so."""
        with suppress(OSError):
            self._connection.sendall(json.dumps(words).encode() + b"\n")

    def read(self, timeout_s: float | None = None) -> list[list[Any]] | None:
        """What came within `timeout_s` seconds (None: as soon as something comes); None where the other end is gone."""
        ready, _, _ = select.select([self._connection], [], [], timeout_s)
        if not ready:
            return []
        try:
            data = self._connection.recv(65536)
        except OSError:
            return None
        if not data:
            return None
        *whole, self._partial = (self._partial + data).split(b"\n")
        return [json.loads(line) for line in whole]

    def end(self) -> None:
        """Say that nothing more will be sent."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._connection.close()
