"""A store and a landscape of the test's own; `landscape.py` beside this is imported by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kforecast.store.database import Store

sys.path.insert(0, str(Path(__file__).parent))

from landscape import Bed, Landscape


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    """A store of its own, and a landscape in virtual time."""
    with Store.open(tmp_path / "search.db") as store:
        yield Bed(store, Landscape())
