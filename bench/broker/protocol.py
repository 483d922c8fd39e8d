"""Where a broker listens and the lines that it and its clients exchange. Lines only wake: the rows are the truth.

Client to broker: `watch ID` (tell me about this request; if I vanish and it is not detached, cancel it), `leave ID` (I
want it no more: cancel it now, unless it is detached or somebody else watches), `cancel ID`, `retire` (finish what you
do, then end: a client of other code or with other compilers is here). A request names the broker that its client wants;
another one leaves it alone as long as that client waits.
Broker to client: `hello FINGERPRINT PID` first, then `progress ID TEXT` and `done ID`.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...store.errors import InputError
from ...store.paths import cache_dir, runtime_dir

_ADDRESS_LIMIT = 107  # sun_path holds 108 bytes with its zero
_COMPILERS = ("gcc", "cc", "clang", "g++", "c++", "clang++", "nvcc")
OPEN = "open"
"""Given to a broker that shall open its device at once, in the device-only lane: before there is a request."""
HANDS_VARIABLE = "KFORECAST_HANDS"
IDLE_VARIABLE = "KFORECAST_BROKER_IDLE_S"
_IDLE_S = 300.0
_DECIDING = (
    *("CC", "CXX", "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
    HANDS_VARIABLE,
)


def idle_s() -> float:
    """Seconds that a broker stays without work: `KFORECAST_BROKER_IDLE_S`, else five minutes. Raises InputError where
    the variable is no such number.
    """
    wanted = os.environ.get(IDLE_VARIABLE, "")
    try:
        seconds = float(wanted or _IDLE_S)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise InputError(
            f"{IDLE_VARIABLE} is no number of seconds", value=wanted, next_step="Give 0 or more, or leave it unset."
        )
    return seconds


def wanted_hands() -> int | None:
    """How many kernels `KFORECAST_HANDS` wants measured at once; None where it is not set. Raises InputError where it
    is no positive number.
    """
    wanted = os.environ.get(HANDS_VARIABLE, "")
    if not wanted:
        return None
    if not wanted.isdecimal() or int(wanted) < 1:
        raise InputError(
            f"{HANDS_VARIABLE} is no number of hands", value=wanted, next_step="Give 1 or more, or leave it unset."
        )
    return int(wanted)


def socket_path(device: str, store_path: Path) -> Path:
    """The socket of the broker for this device and store."""
    store_key = hashlib.sha256(str(store_path.resolve()).encode()).hexdigest()[:10]
    readable = re.sub(r"[^A-Za-z0-9]+", "-", device)
    return runtime_dir() / f"broker-{readable}-{store_key}.sock"


def log_path(device: str, store_path: Path) -> Path:
    """Where the broker of this device and store writes what goes wrong."""
    return socket_path(device, store_path).with_suffix(".log")


@contextmanager
def address(path: Path) -> Iterator[str]:
    """The socket's address. Where the path is too long for one, its directory is named by an open descriptor."""
    if len(os.fsencode(path)) <= _ADDRESS_LIMIT:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def fingerprint() -> str:
    """What a broker's answers depend on besides the request: the installed code and packages (compilers are among them,
    and their names enter kernels' ids), and of the environment what decides which compiler, which GPU and which cache
    it uses, and how many hands it has. A client whose own differs gets a broker of its own kind.

    Not cached: a client that outlives an upgrade must know the broker that it would start now.
    """
    root = Path(__file__).resolve().parents[2]
    rooms = ("store", "bench")
    suffixes = (".py", ".c", ".cu", ".toml")
    files = sorted(path for room in rooms for path in (root / room).rglob("*.*") if path.suffix in suffixes)
    code = [f"{path.relative_to(root)} {path.stat().st_mtime_ns}" for path in files]
    found = [f"{name}: {shutil.which(name)}" for name in _COMPILERS]
    given = [f"{name}={os.environ.get(name, '')}" for name in _DECIDING]
    packages = Path(sysconfig.get_path("purelib"))
    installed = f"{packages} {packages.stat().st_mtime_ns}"  # installing or removing one renames folders in there
    text = "\n".join([*code, *found, *given, installed, sys.prefix, str(cache_dir())])
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]
