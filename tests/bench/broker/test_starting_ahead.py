"""Brokers that start before there is a request: they serve it, or end; and what fails then is told as ever."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from brokers import Kernels, ask, begun, broker_pid, until

from kforecast.app.main import run
from kforecast.bench.broker import processes_alive, service, starting
from kforecast.bench.broker.client import cancel
from kforecast.bench.broker.protocol import log_path, socket_path
from kforecast.bench.broker.service import Service
from kforecast.store import requests
from kforecast.store.database import Store
from kforecast.store.errors import DeviceError
from kforecast.store.paths import store_path
from kforecast.tools.ahead import start_ahead
from kforecast.tools.measure import begin

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[bool, subprocess.Popen[bytes]]]]:
    """Every broker that this process started, and whether it opens its device at once. Afterwards all have ended."""
    found: list[tuple[bool, subprocess.Popen[bytes]]] = []
    start = starting._start

    def recorded(device: str, place: Path, opens: bool) -> Any:
        begun = start(device, place, opens)
        found.append((opens, begun.process))
        return begun

    monkeypatch.setattr(starting, "_start", recorded)
    yield found
    for _, process in found:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()


def measure(*arguments: str) -> int:
    return run(["measure", *arguments, "--effort", "quick", "--timeout", "60", "--json"])


def test_the_broker_that_was_started_first_measures(
    kernels: Kernels, started: list[tuple[bool, subprocess.Popen[bytes]]]
) -> None:
    assert measure(str(kernels.quick), "--baseline", "none") == 0
    ((opens, process),) = started
    assert opens
    assert broker_pid() == process.pid
    assert measure(str(kernels.quick), "--baseline", "none") == 0
    assert len(started) == 1


def test_a_bad_file_leaves_a_broker_that_ends_by_itself(
    started: list[tuple[bool, subprocess.Popen[bytes]]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KFORECAST_BROKER_IDLE_S", "0.2")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    bad = tmp_path / "bad.c"
    bad.write_text("/* kforecast 1\nlunch = 1\n*/\n")
    assert measure(str(bad)) == 2
    ((_, process),) = started
    until(lambda: process.poll() is not None, what="the broker ends")
    assert process.returncode == 0
    assert not socket_path("cpu", store_path()).exists()
    assert not list((tmp_path / "temporary").iterdir())
    assert log_path("cpu", store_path()).read_bytes() == b""
    with Store.open() as store:
        assert requests.recent(store) == []


@pytest.mark.parametrize("asked", [False, True])
def test_a_broker_that_nobody_asks_for_anything_does_not_stay_as_long_as_others(kernels: Kernels, asked: bool) -> None:
    script = (
        "import sys; from kforecast.bench.broker import begin, server; server._UNASKED_S = 1.0; "
        "sys.exit(begin.main('cpu', opens=True))"
    )
    patient = {**os.environ, "KFORECAST_BROKER_IDLE_S": "300"}
    with subprocess.Popen([sys.executable, "-c", script], env=patient) as broker:
        if not asked:
            assert broker.wait(30) == 0
            return
        until(lambda: broker_pid() == broker.pid, what="it serves")
        time.sleep(2.5)  # it would have ended by now, and looks every second
        assert broker_pid() == broker.pid
        broker.terminate()


@pytest.mark.parametrize(
    ("file", "device", "expected"),
    [
        ("a.c", None, [("cpu", True)]),
        ("a.cu", None, [("cuda:0", True)]),
        ("a.cu", "cuda:1", [("cuda:1", True)]),
        ("a.py", "cpu", [("cpu", False)]),
        ("a.py", "cuda", [("cuda:0", False)]),
        ("a.c", "cuda:0", []),
        ("a.cu", "cpu", []),
        ("a.cu", "gpu", []),
        ("a.txt", None, []),
        ("missing.c", None, []),
        ("k_06084b9b92d521e7e72d", "cpu", []),
        ("void f(void) {}\n// a.c", None, []),
    ],
)
def test_which_broker_a_file_will_want(
    file: str, device: str | None, expected: list[object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.c", "a.cu", "a.py", "a.txt"):
        (tmp_path / name).touch()
    asked = []
    monkeypatch.setattr(starting, "start_ahead", lambda device, place, *, opens: asked.append((device, opens)))
    start_ahead([file, file], device)
    assert asked == expected


def test_no_broker_is_started_where_none_is_wanted(
    kernels: Kernels, started: list[tuple[bool, subprocess.Popen[bytes]]], tmp_path: Path, capsys: Capture
) -> None:
    assert measure(str(kernels.quick), "--baseline", "none", "--no-broker") == 0
    program = tmp_path / "program.c"
    program.write_text("int main(void) { return 0; }\n")
    assert measure(str(program)) != 0
    assert started == []


def test_what_brokers_cannot_be_is_told_by_the_measurement(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("KFORECAST_HANDS", "many")
    assert measure(str(kernels.quick), "--baseline", "none") == 2
    assert json.loads(capsys.readouterr().out)["what"] == "KFORECAST_HANDS is no number of hands"
    assert not log_path("cpu", store_path()).exists()


def test_a_broker_that_cannot_start_ahead_is_told_by_the_measurement(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))
    assert measure(str(kernels.quick), "--baseline", "none") == 4
    assert "as it started" in json.loads(capsys.readouterr().out)["what"]


def test_each_request_is_told_that_the_device_cannot_be_opened(
    started: list[tuple[bool, subprocess.Popen[bytes]]], tmp_path: Path, capsys: Capture
) -> None:
    kernel = tmp_path / "add.cu"
    kernel.write_text(
        '/* kforecast 1\ntask = "vector_add"\n[[launch]]\nentry = "add"\nargs = ["a", "b", "c", "N"]\n'
        'grid = ["N"]\nblock = [1]\n*/\n'
        'extern "C" __global__ void add(const float* a, const float* b, float* c, int N) {}\n'
    )
    for _ in range(2):
        assert measure(str(kernel), "--baseline", "none", "--device", "cuda:99") == 4
        told = json.loads(capsys.readouterr().out)
        assert (told["error"], "CUDA driver" in told["what"]) == ("DeviceError", True)
    assert [opens for opens, _ in started] == [True]
    with Store.open() as store:
        assert [one.state for one in requests.recent(store)] == ["failed"] * 2


def test_a_device_that_could_not_be_opened_ahead_is_tried_again(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = service.open_lane

    def refuse(*given: object) -> None:
        monkeypatch.setattr(service, "open_lane", really)
        raise DeviceError("not now", next_step="Try again.")

    with Store.open() as store:
        name = ask(kernels.quick, use_broker=False, store=store).kernel_id
        owner = processes_alive.owner_name("test")
        asked = requests.enqueue(
            store, device="cpu", payload={"kernel_id": name, "baseline_id": None, "effort": "quick"}, client="test"
        )
        claimed = requests.claim(store, asked.id, owner)
        assert claimed is not None
        own = Service(store, "cpu", owner)
        monkeypatch.setattr(service, "open_lane", refuse)
        own.open_ahead()
        own.run(claimed)
        own.close()
        ended = requests.get(store, asked.id)
    assert ended is not None
    assert ended.state == "completed"


def test_a_second_broker_leaves_the_first_one_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    command = [sys.executable, "-m", "kforecast.bench.broker", "cpu", "open"]
    with subprocess.Popen(command) as first:
        until(lambda: broker_pid() == first.pid, what="it serves")
        assert subprocess.run(command, check=False, timeout=30).returncode == 0
        assert len(list(temporary.glob("kforecast-broker-*"))) == 1
        assert broker_pid() == first.pid
        first.terminate()


OPENER = """
import subprocess, sys, time
from kforecast.bench.broker import begin
from kforecast.bench.broker.hands import Hands
from kforecast.bench.processes import die_with_parent
def open_ahead(self):
    print(subprocess.Popen(["sleep", "300"], preexec_fn=die_with_parent).pid, flush=True)
    time.sleep(1.0)  # meanwhile another thread takes the request
Hands.open_ahead = open_ahead
sys.exit(begin.main("cpu", opens=True))
"""


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_was_started_with_the_device_lives_as_long_as_somebody_measures(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Helper processes are killed with the thread that started them, which may have nothing to do any more."""
    monkeypatch.setenv("KFORECAST_HANDS", "2")
    with Store.open() as store:
        request = begin(
            store, str(kernels.endless), client="test", baseline="none", timeout_s=60.0, detached=True
        ).request
        with subprocess.Popen([sys.executable, "-c", OPENER], stdout=subprocess.PIPE, text=True) as broker:
            assert broker.stdout is not None
            helper = int(broker.stdout.readline())
            begun("checking")
            with starting.Line(socket_path("cpu", store_path())) as line:
                line.send("retire")
            time.sleep(2.0)  # the thread that started it finds that it is to go
            assert runs(helper)
            cancel(store, request)
            broker.terminate()
            assert broker.wait(60) == 0
        until(lambda: not runs(helper), what="it ends with its broker")
