"""A server in a working directory of its own, clients of both eras, and kernels that take as long as a test needs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "broker"))
sys.path.insert(0, str(Path(__file__).parent))

from brokers import Kernels, broker_pid, candidates, until, write_kernels

from kforecast.tools.mcp.server import KforecastServer, make_server


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernels:
    """Kernel files in the working directory, which the server may read."""
    monkeypatch.chdir(tmp_path)
    return write_kernels(tmp_path)


@pytest.fixture
def server(kernels: Kernels) -> KforecastServer:
    return make_server()


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    """The era that the client negotiates: 2026-07-28, or 2025-11-25."""
    return str(request.param)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Ends the test's broker; afterwards no candidate process is there."""
    yield
    pid = broker_pid()
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        until(lambda: not Path(f"/proc/{pid}").exists(), what="the broker ends")
    until(lambda: not candidates(), what="no candidate process is left")
