"""`python -m kforecast.bench.broker DEVICE [open]`: what a client starts when no broker serves the device."""

from __future__ import annotations

import sys
import threading

from .protocol import OPEN


def _look_at(device: str) -> None:
    """Load the driver and ask it about the device: what is known then need not be asked for again."""
    from ...store.errors import KforecastError
    from ..devices.catalogue import device_kind, ordinal_of

    try:
        if device_kind(device) == "cuda":
            from ..devices.cuda.device import device_facts
            from ..devices.cuda.monitor import Monitor

            device_facts(ordinal_of(device))
            Monitor(ordinal_of(device))
    except KforecastError:
        pass  # whoever measures there is told


def main() -> int:
    """Entry point of the process."""
    device, *more = sys.argv[1:]
    # Meanwhile: the driver takes its time, and so do imports.
    threading.Thread(target=_look_at, args=(device,), name="kforecast-driver", daemon=True).start()
    from .server import main as serve

    return serve(device, opens=OPEN in more)


if __name__ == "__main__":
    sys.exit(main())
