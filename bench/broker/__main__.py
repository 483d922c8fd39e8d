"""`python -m kforecast.bench.broker DEVICE`: what a client starts when no broker serves the device."""

from __future__ import annotations

import sys

from .server import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
