"""Helper processes that are started before there is a lane: it uses them, and they end. No GPU needed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kforecast.bench.devices.catalogue import start_helpers
from kforecast.bench.devices.cuda import ahead, helpers, lane
from kforecast.bench.devices.cuda.ahead import StartedAhead
from kforecast.bench.devices.cuda.device import DeviceFacts
from kforecast.bench.devices.cuda.lane import CudaLane
from kforecast.store.errors import DeviceError

SCRIPT = """
import os, socket, sys
from kforecast.bench.devices.cuda.channel import Channel, ChannelClosed
channel = Channel(socket.socket(fileno=int(sys.argv[2])))
channel.send({"ready": True})
while True:
    try:
        message = channel.receive()
    except ChannelClosed:
        sys.exit(0)
    channel.send({"pid": os.getpid(), "role": sys.argv[1], "given": sys.argv[3:], "handle": "00"} | message)
"""
FACTS = DeviceFacts("A GPU", "GPU-ahead", "sm_90", 132, 232448, 50 << 20, 140 << 30, 1980.0, False)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Every process that was started; they are Python scripts that speak the protocol, on a GPU that is not there."""
    script = tmp_path / "pretend.py"
    script.write_text(SCRIPT)
    popen, found = helpers.subprocess.Popen, []

    def start(argv: list[str], **rest: Any) -> Any:
        found.append(popen([sys.executable, str(script), argv[2].rpartition(".")[2], *argv[3:]], **rest))
        return found[-1]

    monkeypatch.setattr(helpers.subprocess, "Popen", start)
    for module in (ahead, lane):
        monkeypatch.setattr(module, "device_facts", lambda ordinal: FACTS)
        monkeypatch.setattr(module, "require_packages", lambda: None)
    monkeypatch.setattr(CudaLane, "trusted_cubin", Path("trusted.cubin"))
    monkeypatch.setattr(CudaLane, "_judging", Path("oracle.cubin"))
    return found


@pytest.mark.parametrize("sharers", [1, 4])
def test_a_lane_goes_on_with_what_was_started(started: list[Any], sharers: int) -> None:
    early = start_helpers("cuda:0", sharers)
    assert early is not None
    assert (early.turns is None) == (sharers == 1)
    opened = CudaLane(0)
    if early.turns is not None:
        opened.share(early.turns, sharers)
    early.hand_over(opened)
    early.close()  # the lane's now
    first, second = (process.pid for process in started)
    answer = opened.ask_oracle("memory")
    assert (answer["pid"], answer["role"], answer["given"]) == (first, "oracle", ["0", str(sharers)])
    answer = opened.launcher().ask("anything")
    assert (answer["pid"], answer["role"]) == (second, "launcher")
    assert len(started) == 3, "the two, and a spare launcher"
    opened.close()
    assert all(process.poll() is not None for process in started)


def test_what_no_lane_took_is_ended(started: list[Any]) -> None:
    early = StartedAhead(0, 1)
    assert [process.poll() for process in started] == [None, None]
    early.close()
    assert all(process.poll() is not None for process in started)


def test_nothing_is_started_where_the_gpu_or_its_packages_are_missing(
    started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise DeviceError("packages that a GPU needs are missing", next_step="Install them.")

    monkeypatch.setattr(ahead, "require_packages", missing)
    with pytest.raises(DeviceError, match="missing"):
        start_helpers("cuda:0", 1)
    assert start_helpers("cpu", 1) is None
    assert started == []
