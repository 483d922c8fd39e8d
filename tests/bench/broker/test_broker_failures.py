"""What cannot work is said: a broker that cannot start, a store that cannot be written, a disk that is full."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from brokers import Kernels, ask, only_request, until

from kforecast.bench.broker.protocol import log_path, socket_path
from kforecast.store import requests
from kforecast.store.database import Store
from kforecast.store.errors import DeviceError, InputError, StoreError
from kforecast.store.paths import store_path


def test_a_store_that_the_broker_cannot_use(kernels: Kernels) -> None:
    with Store.open() as store:
        newer = sqlite3.connect(store_path())
        newer.execute("PRAGMA user_version = 999")
        newer.close()
        with pytest.raises(StoreError, match=r"(?s)broker of cpu cannot use the store.*999"):
            ask(kernels.quick, store=store)
        assert [one.state for one in requests.recent(store)] == ["queued"]


def test_a_broker_that_cannot_start_says_why(kernels: Kernels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))
    with pytest.raises(DeviceError, match=r"(?s)ended with code 1 as it started.*encodings") as failure:
        ask(kernels.quick)
    assert "--no-broker" in failure.value.next_step
    assert only_request().state == "cancelled"


@pytest.mark.parametrize("variable", ["KFORECAST_BROKER_IDLE_S", "KFORECAST_HANDS"])
@pytest.mark.parametrize("value", ["soon", "-1", "nan"])
def test_a_variable_about_brokers_is_read_before_one_starts(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError, match=f"{variable} is no number of .*: {value}"):
        ask(kernels.quick)
    assert only_request().state == "cancelled"
    assert not log_path("cpu", store_path()).exists()


def test_a_request_that_no_version_understands_fails_alone(kernels: Kernels) -> None:
    with Store.open() as store:
        strange = requests.enqueue(store, device="cpu", payload={"of": "another version"}, client="somebody")
        assert ask(kernels.quick, store=store).verdict == "ok"
        until(lambda: not requests.unfinished(store), what="the queue is empty")
        ended = requests.get(store, strange.id)
    assert ended is not None
    assert ended.state == "failed"
    assert ended.error is not None
    assert "payload" in ended.error["what"]


# -- a small disk of our own: a tmpfs in a user and mount namespace
# ------------------------------------------------------

UNSHARE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
ON_SMALL_DISK = 'mount -t tmpfs -o size=1m tmpfs "$1" && shift && exec "$@"'
SCRIPT = """
import json, os, sys
from pathlib import Path
from kforecast.bench.broker.client import cancel
from kforecast.store import measurements, requests
from kforecast.store.database import Store
from kforecast.store.errors import KforecastError
from kforecast.tools.measure import measure

disk, kernel, how, broker = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4] == "broker"
answers = []

def ask(on_progress=lambda text: None):
    try:
        result = measure(kernel, baseline="none", effort="quick", on_progress=on_progress, use_broker=broker)
        answers.append({"state": result.state})
    except KforecastError as error:
        answers.append(error.as_dict())

def fill():
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 1024):
                pass
        except OSError:
            pass

def no_more(text):
    if text.startswith("timing block 2"):
        fill()

ask()
if how == "full":
    ask(no_more)
    ask()
    (disk / "filler").unlink()
else:
    os.system(f"mount -o remount,ro {disk}")
    ask()
    os.system(f"mount -o remount,rw {disk}")
ask()
with Store.open() as store:
    print(json.dumps({
        "answers": answers,
        "integrity": store.read("PRAGMA integrity_check")[0][0],
        "stored": len(measurements.find(store)),
        "unfinished": len(requests.unfinished(store)),
    }))
"""


def on_small_disk(kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> dict[str, Any]:
    disk = tmp_path / "disk"
    disk.mkdir()
    probe = subprocess.run([*UNSHARE, ON_SMALL_DISK, "sh", str(disk), "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"no namespaces here: {probe.stderr.decode().strip()}")
    monkeypatch.setenv("KFORECAST_DB", str(disk / "kforecast.db"))
    monkeypatch.setenv("KFORECAST_BROKER_IDLE_S", "0.2")
    command = [*UNSHARE, ON_SMALL_DISK, "sh", str(disk), sys.executable, "-c", SCRIPT, str(disk), str(kernel), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    until(lambda: not socket_path("cpu", store_path()).exists(), what="the broker has ended")
    return found


@pytest.mark.parametrize("how", ["broker", "inline"])
def test_the_disk_fills_up_in_the_middle(
    kernels: Kernels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    found = on_small_disk(kernels.slow, tmp_path, monkeypatch, "full", how)
    before, middle, full, after = found["answers"]
    assert before == after == {"state": "completed"}
    for error in (middle, full):
        assert (error["error"], error["exit_code"]) == ("StoreError", 3)
        assert "full" in f"{error['what']} {error['value']}"
    assert found["integrity"] == "ok"
    if (
        how == "broker"
    ):  # its successor has made good for it; in this process the rows are this process's own to the end
        assert found["unfinished"] == 0


def test_a_read_only_store(kernels: Kernels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = on_small_disk(kernels.quick, tmp_path, monkeypatch, "read-only", "inline")
    before, middle, after = found["answers"]
    assert before == after == {"state": "completed"}
    assert (middle["error"], middle["exit_code"]) == ("StoreError", 3)
    assert (found["integrity"], found["stored"], found["unfinished"]) == ("ok", 2, 0)


def test_a_compiler_without_room_says_nothing_of_the_kernel(kernels: Kernels, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    mounted = 'mount -t tmpfs -o size=24k tmpfs "$1" && TMPDIR="$1" && export TMPDIR && shift && exec "$@"'
    probe = subprocess.run([*UNSHARE, mounted, "sh", str(temporary), "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"no namespaces here: {probe.stderr.decode().strip()}")
    kernels.quick.write_text(kernels.quick.read_text() + "// another text than what is in the cache already\n")
    facts = [sys.executable, "-m", "kforecast", "facts", str(kernels.quick), "--json"]
    done = subprocess.run(
        [*UNSHARE, mounted, "sh", str(temporary), *facts], capture_output=True, text=True, check=False, timeout=60
    )
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["error"], answer["value"]) == (4, "DeviceError", str(temporary)), done.stderr
    assert answer["what"] == "there is no room to compile in (No space left on device)"
