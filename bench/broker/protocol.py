"""Where a broker listens and the lines that it and its clients exchange. Lines only wake: rows in the store are the truth.

Client to broker: `watch ID` (tell me about this request; if I vanish and it is not detached, cancel it), `cancel ID`, `wake`
(look into the queue), `retire` (finish what you do, then end: a newer version of the code is here).
Broker to client: `hello FINGERPRINT PID` first, then `progress ID TEXT` and `done ID`.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from pathlib import Path

from ...store.paths import runtime_dir

_SOCKET_PATH_LIMIT = 107  # sun_path holds 108 bytes with its zero


def socket_path(device: str, store_path: Path) -> Path:
    """The socket of the broker for this device and store.

    Hashed where the readable name would not fit into a socket address.
    """
    store_key = hashlib.sha256(str(store_path.resolve()).encode()).hexdigest()[:10]
    readable = re.sub(r"[^A-Za-z0-9]+", "-", device)
    path = runtime_dir() / f"broker-{readable}-{store_key}.sock"
    if len(os.fsencode(path)) > _SOCKET_PATH_LIMIT:
        short = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        path = Path("/tmp") / f"kforecast-{os.getuid()}-{short}.sock"
    return path


@functools.cache
def code_fingerprint() -> str:
    """Changes when the installed code changes, so that a broker of yesterday's code is replaced, not trusted."""
    root = Path(__file__).resolve().parents[2]
    rooms = ("store", "bench")
    files = sorted(path for room in rooms for path in (root / room).rglob("*.*") if path.suffix in (".py", ".c", ".toml"))
    text = "\n".join(f"{path.relative_to(root)} {path.stat().st_mtime_ns}" for path in files)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
