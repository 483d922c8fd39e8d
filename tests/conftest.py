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
    monkeypatch.setenv("KFORECAST_BROKER_IDLE_S", "5")
    for name in ("CONFIG", "DEVICE", "EFFORT", "MODEL", "API_BASE", "ALPHA", "ROOTS", "DEBUG", "HANDS"):
        monkeypatch.delenv(f"KFORECAST_{name}", raising=False)


TOGETHER = {
    "exploits": ("exploits",),
    "bench": ("bench/broker", "bench/devices", "bench/hosted", "bench/programs", "bench/test_"),
    "faces": ("app", "tools/mcp", "tools/search"),
}
"""Tests that stay out of each other's way in a parallel run: those of a group, which measure, or count what is left.

xdist 3.8 does not see groups under pytest 9.2; until it does, single tests go to any worker.
"""


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` need an NVIDIA driver with a device, and go one after the other."""
    here = Path(__file__).parent
    no_gpu = not (Path("/dev/nvidiactl").exists() or any(Path("/proc/driver/nvidia/gpus").glob("*")))
    for item in items:
        place = item.path.relative_to(here).as_posix()
        groups = [name for name, places in TOGETHER.items() if place.startswith(places)]
        if item.get_closest_marker("gpu") is not None:
            groups = ["gpu"]
            if no_gpu:
                item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))
        for name in groups:
            item.add_marker(pytest.mark.xdist_group(name))
