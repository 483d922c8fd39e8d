"""The beginning of a broker's process, in the order of what takes longest: helper processes of the device first, then
the imports of a broker, its socket and its workers.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from ...store.errors import DeviceError, KforecastError
from ...store.paths import store_path
from ..devices.catalogue import start_helpers
from . import guard
from .protocol import socket_path
from .scratch import scratch_folder
from .shares import hands_for, sharers_of

if TYPE_CHECKING:
    from ..devices.cuda.ahead import StartedAhead


def main(device: str, *, opens: bool = False) -> int:
    """Run a broker in this process. Returns the exit code: 0, or the failure's, which the log describes.

    opens: the device is opened at once, in its device-only lane, instead of with the first request.
    """
    try:
        right = guard.take_when_free(socket_path(device, store_path()))  # kept open to the end of the process
        if right is None:
            return 0  # another broker serves already
        with scratch_folder():
            started = _start_helpers(device) if opens else None
            try:
                from .server import Broker

                return Broker(device, opens=opens, started=started).serve()
            finally:
                if started is not None:
                    started.close()
    except KforecastError as error:
        print(f"broker: {error}", file=sys.stderr)  # noqa: T201  the broker's log file is its stderr
        return error.exit_code


def _start_helpers(device: str) -> StartedAhead | None:
    with suppress(DeviceError):  # whoever measures there is told
        return start_helpers(device, sharers_of(hands_for(device)))
    return None
