"""A process that fences itself: which sockets are left."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, socket, sys
from kforecast.bench.landlock import fence_this_process
words = fence_this_process(["/"], [], devices=DEVICES)
found = {}
for name, family, kind in (
    ("stream", socket.AF_UNIX, socket.SOCK_STREAM),
    ("packets", socket.AF_UNIX, socket.SOCK_SEQPACKET),
    ("datagrams", socket.AF_UNIX, socket.SOCK_DGRAM),
    ("internet", socket.AF_INET, socket.SOCK_STREAM),
    ("netlink", socket.AF_NETLINK, socket.SOCK_RAW),
):
    try:
        with socket.socket(family, kind):
            found[name] = "made"
    except PermissionError:
        found[name] = "refused"
try:
    ours, theirs = socket.socketpair()
    ours.connect(b"\\0nobody")
    found["connect"] = "made"
except OSError as error:
    found["connect"] = type(error).__name__
print(json.dumps([words, found]))
"""


@pytest.mark.parametrize(("devices", "local"), [((), "refused"), (("/dev/null",), "made")])
def test_sockets_of_a_fenced_process(devices: tuple[str, ...], local: str) -> None:
    script = SCRIPT.replace("DEVICES", repr(devices))
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    words, found = json.loads(ran.stdout)
    if "seccomp" not in words:
        pytest.skip("needs seccomp")
    assert (found["stream"], found["packets"]) == (local, local)
    assert (found["datagrams"], found["internet"], found["netlink"]) == ("refused",) * 3
    if devices:
        assert found["connect"] == "PermissionError"
