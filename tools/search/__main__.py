"""`python -m kforecast.tools.search ID`: a search's worker, apart from whoever asked for the search."""

from __future__ import annotations

import sys

from .process import work

if __name__ == "__main__":
    sys.exit(work(sys.argv[1]))
