"""`grown.py` beside this is imported by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from grown import Grown


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[Grown]:
    """A store of its own with one search in it."""
    made = Grown(tmp_path / "k.db")
    yield made
    made.close()
