"""Real brokers, real clients, and kernels that take as long as a test needs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kforecast.bench.broker.lock import holder
from kforecast.bench.broker.protocol import address, socket_path
from kforecast.bench.devices.cpu.machine import device_id
from kforecast.store import requests
from kforecast.store.database import Store
from kforecast.store.models import Request
from kforecast.store.paths import store_path
from kforecast.tools.measure import measure
from kforecast.tools.results import MeasureResult

_HEADER = """/* kforecast 1
[task]
name = "double"
in.x = { dtype = "f32", shape = ["N"], fill = "normal" }
out.y = { dtype = "f32", shape = ["N"] }
reference = "double.py:reference"
checked = [{ N = 37 }]
timed = [{ N = 512 }]
[[launch]]
entry = "twice"
args = ["x", "y", "N"]
*/
#include <unistd.h>
void twice(const float* x, float* y, int N) { WAIT for (int i = 0; i < N; i++) y[i] = 2 * x[i]; }
"""


@dataclass(frozen=True)
class Kernels:
    """Files of right kernels. `slow`: a second or two to measure; `endless`: a call never returns by itself."""

    quick: Path
    slow: Path
    endless: Path


def write_kernels(folder: Path) -> Kernels:
    (folder / "double.py").write_text("def reference(xp, inputs, sizes):\n    return {'y': inputs['x'] * 2}\n")
    for name, wait in (("quick", ""), ("slow", "usleep(15000);"), ("endless", "for (;;) usleep(1000);")):
        (folder / f"{name}.c").write_text(_HEADER.replace("WAIT", wait))
    return Kernels(folder / "quick.c", folder / "slow.c", folder / "endless.c")


def until(condition: Callable[[], object], *, what: str, within_s: float = 30.0) -> Any:
    """The condition's value as soon as it is true."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.01)
    return value


# -- clients -----------------------------------------------------------------------------------------------------------


def ask(kernel: Path, **more: Any) -> MeasureResult:
    """Measure in this process as a client, a minute's deadline for a call."""
    return measure(str(kernel), **{"baseline": "none", "effort": "quick", "timeout_s": 60.0, **more})


def start_client(kernel: Path, *options: str) -> subprocess.Popen[str]:
    """`kforecast measure` as a process of its own."""
    command = [sys.executable, "-m", "kforecast", "measure", str(kernel), "--baseline", "none", "--effort", "quick"]
    return subprocess.Popen(
        [*command, "--timeout", "60", "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def answer_of(client: subprocess.Popen[str], *, code: int = 0) -> dict[str, Any]:
    """What a client printed, once it has ended with `code`."""
    output, errors = client.communicate(timeout=60)
    assert client.returncode == code, errors
    found: dict[str, Any] = json.loads(output)
    return found


# -- what happens meanwhile --------------------------------------------------------------------------------------------


def only_request() -> Request:
    """The one request of the test's store."""
    with Store.open() as store:
        (request,) = requests.recent(store)
    return request


def begun(progress: str = "") -> Request:
    """The store's newest request, once it is worked on and at a step that begins with `progress`."""

    def newest() -> Request | None:
        if not store_path().exists():
            return None
        with Store.open() as store:
            found = requests.recent(store, 1)
        assert not found or found[0].state in ("queued", "working"), found[0]
        return next((one for one in found if one.state == "working" and one.progress.startswith(progress)), None)

    request: Request = until(newest, what="the request is worked on")
    return request


def held() -> dict[str, Any]:
    """Who holds the device, once somebody does and has said so."""

    def known() -> dict[str, Any] | None:
        found = holder(device_id())
        return found if found is not None and found["pid"] is not None else None

    found: dict[str, Any] = until(known, what="the device is held")
    return found


def free() -> None:
    """Returns once nobody holds the device."""
    until(lambda: holder(device_id()) is None, what="the device is free")


def pid_of(owner: str | None) -> int:
    assert owner is not None
    return int(owner.split(":")[1])


def broker_pid() -> int | None:
    """The process that serves this store's cpu, None where none answers."""
    path = socket_path("cpu", store_path())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(10.0)
        try:
            with address(path) as name:
                line.connect(name)
            hello = line.recv(4096).decode().split()
        except OSError:
            return None
    return int(hello[2]) if hello else None


def candidates() -> list[int]:
    """Processes that run a kernel of this session, whoever started them."""
    binary = os.fsencode(os.environ["KFORECAST_CACHE_DIR"])
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cmdline").read_bytes().startswith(binary):
                found.append(int(place.name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
    return found
