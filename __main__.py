"""`python -m kforecast`: the command line, where the script is not on the PATH."""

from __future__ import annotations

from .app.main import main

if __name__ == "__main__":
    main()
