"""Watching a request without waiting for it in a thread: a file descriptor for a caller's own event loop."""

from __future__ import annotations

import time
from typing import Self

from ...store.database import Store
from ...store.models import Request
from .needs import needs_of
from .starting import Line, connect


class Watch:
    """Tells the broker that somebody wants a request, for as long as it is open, and hears what becomes of it.

    A request that is not detached is cancelled a second after its last watch is gone, at once after `leave`. Lines only
    wake: the row is the truth.
    """

    def __init__(self, line: Line, request: Request) -> None:
        self._line = line
        self._request_id = request.id
        line.send(f"watch {request.id}")

    @classmethod
    def open(cls, store: Store, request: Request, *, within_s: float) -> Self | None:
        """Watch the request; starts its device's broker where none serves. None: there is none within `within_s` yet.

        Blocks up to `within_s` seconds. Raises DeviceError where no broker can be started, StoreError where it cannot
        use the store.
        """
        until = time.monotonic() + within_s
        line = connect(
            request.device,
            store.path,
            until,
            lambda text: None,
            opens=lambda: not needs_of(store, request).hosted,
            wanted=str(request.payload.get("broker", "")),
        )
        return None if line is None else cls(line, request)

    def fileno(self) -> int:
        """The descriptor that is readable once `take` has something to say."""
        return self._line.fileno()

    def take(self) -> list[str] | None:
        """What came since the last call, without waiting: texts of progress, `done` last. None: the broker is gone."""
        lines = self._line.read(0.0)
        if lines is None:
            return None
        words = [line.split(" ", 2) for line in lines]
        return [parts[2] if parts[0] == "progress" else parts[0] for parts in words if parts[0] in ("progress", "done")]

    def leave(self) -> None:
        """Close the watch; where nobody else watches and the request is not detached, it is cancelled at once."""
        self._line.send(f"leave {self._request_id}")
        self._line.close()

    def close(self) -> None:
        """Close the watch. Closing twice is no error."""
        self._line.close()
