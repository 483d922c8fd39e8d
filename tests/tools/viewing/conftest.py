"""The searches that tests of the tui grow are those that tests of what it reads grow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "app" / "tui"))

from grown import Grown


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[Grown]:
    """A store of its own with one search in it."""
    made = Grown(tmp_path / "k.db")
    yield made
    made.close()
