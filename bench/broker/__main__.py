"""`python -m kforecast.bench.broker DEVICE [open]`: what a client starts when no broker serves the device."""

from __future__ import annotations

import sys

from .begin import main
from .protocol import OPEN

if __name__ == "__main__":
    sys.exit(main(sys.argv[1], opens=OPEN in sys.argv[2:]))
