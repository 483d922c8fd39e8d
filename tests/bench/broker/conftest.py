from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from brokers import Kernels, broker_pid, candidates, until, write_kernels


@pytest.fixture
def kernels(tmp_path: Path) -> Kernels:
    return write_kernels(tmp_path)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Ends the test's broker; afterwards no process of it, no candidate and no file of theirs is there."""
    yield
    pid = broker_pid()
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        until(lambda: not Path(f"/proc/{pid}").exists(), what="the broker ends")
    until(lambda: not candidates(), what="no candidate process is left")
