"""A hand: a process that works off its broker's requests, one at a time, beside the broker's other hands.

`python -m kforecast.bench.broker.hand FD DEVICE OWNER SHARERS`: what a broker starts. OWNER is the broker's name, whose
requests these are. From the broker: `run ID`, `cancel` (what runs), the end of the stream (end). To it: `ready` once
the device is warm, then for each request `progress ID TEXT` and at last `done` (its row says how it ended),
`cancelled`, or `unusable ERROR` where the store is.
"""

from __future__ import annotations

import queue
import socket
import sys
import threading

from ...store import requests
from ...store.database import Store
from ...store.errors import StoreError
from ..faults import Cancelled
from ..processes import die_with_parent
from .lines import Lines
from .service import Service


def serve(lines: Lines, device: str, owner: str, sharers: int) -> None:
    """Work off requests until the stream ends."""
    wanted: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    cancelled = threading.Event()

    def listen() -> None:
        while (came := lines.read()) is not None:
            for word, *rest in came:
                if word == "run":
                    cancelled.clear()
                    wanted.put(rest[0])
                elif word == "cancel":
                    cancelled.set()
        cancelled.set()
        wanted.put(None)

    def on_progress(request_id: str, text: str) -> None:
        lines.send("progress", request_id, text)

    with Store.open() as store:
        service = Service(store, device, owner, on_progress, lambda request_id: cancelled.is_set(), sharers)
        threading.Thread(target=listen, name="kforecast-listener", daemon=True).start()
        try:
            service.get_ready()
            lines.send("ready")
            while (request_id := wanted.get()) is not None:
                lines.send(*_work_off(service, request_id))
        except Cancelled:
            return  # the stream ended while the device was made ready
        finally:
            service.close()


def _work_off(service: Service, request_id: str) -> tuple[object, ...]:
    """What to tell the broker in the end."""
    try:
        request = requests.get(service.store, request_id)
        assert request is not None, "requests are never deleted while they are worked on"
        service.work_off(request)
    except Cancelled:
        return ("cancelled",)
    except StoreError as error:
        return "unusable", error.as_dict()
    return ("done",)


def main() -> None:
    """Entry point of the process."""
    die_with_parent()
    descriptor, device, owner, sharers = sys.argv[1:]
    serve(Lines(socket.socket(fileno=int(descriptor))), device, owner, int(sharers))


if __name__ == "__main__":
    main()
