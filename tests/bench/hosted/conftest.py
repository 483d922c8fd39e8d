"""One lane for PyTorch programs on the cpu; its two processes take seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kforecast.bench.devices.cpu.machine import device_id
from kforecast.bench.hosted.lane import HostedLane

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedLane]:
    pytest.importorskip("torch")
    found = HostedLane("cpu", device_id(), tmp_path_factory.mktemp("cache"), load_deadline_s=20.0)
    found.sweep = lambda: None  # nothing here is about times
    yield found
    found.close()


@pytest.fixture(scope="session")
def kernelbench() -> Path:
    return HERE / "kernelbench"


@pytest.fixture(scope="session")
def gpumode() -> Path:
    return HERE / "gpumode"
