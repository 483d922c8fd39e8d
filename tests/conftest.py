"""What every test stands on: a store, a configuration, a cache and a runtime directory of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def session_home() -> Iterator[Path]:
    """A private home for the session. Short, because a unix socket's path holds 107 bytes."""
    home = Path(tempfile.mkdtemp(prefix="kf-"))
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(autouse=True)
def private_places(
    monkeypatch: pytest.MonkeyPatch, session_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No test touches the user's store, configuration or sockets; compiled kernels are kept for the session."""
    monkeypatch.setenv("KFORECAST_DB", str(tmp_path_factory.mktemp("store") / "kforecast.db"))
    monkeypatch.setenv("KFORECAST_RUNTIME_DIR", str(session_home / "run"))
    monkeypatch.setenv("KFORECAST_CACHE_DIR", str(session_home / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(session_home / "config"))
    # A broker that a test started ends soon after the test's store is gone.
    monkeypatch.setenv("KFORECAST_BROKER_IDLE_S", "3")
    monkeypatch.setenv("KFORECAST_BROKER_IDLE_S", "5")
    for name in ("CONFIG", "DEVICE", "EFFORT", "MODEL", "API_BASE", "ALPHA", "ROOTS", "DEBUG"):
        monkeypatch.delenv(f"KFORECAST_{name}", raising=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` need an NVIDIA driver with a device."""
    if Path("/dev/nvidiactl").exists() or any(Path("/proc/driver/nvidia/gpus").glob("*")):
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))
