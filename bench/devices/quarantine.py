"""A device that no longer answers is set aside: the fact stands in a file until a canary kernel runs again."""

from __future__ import annotations

import json
from pathlib import Path

from ...store.clock import utc_now
from ...store.paths import runtime_dir


def _path(device_id: str) -> Path:
    return runtime_dir() / f"device-{device_id}.quarantine"


def quarantine_device(device_id: str, reason: str) -> None:
    """Set the device aside. The first reason and moment are kept."""
    path = _path(device_id)
    if not path.exists():
        path.write_text(json.dumps({"reason": reason, "since": utc_now()}))


def clear_device(device_id: str) -> None:
    """The device works again."""
    _path(device_id).unlink(missing_ok=True)


def quarantined_device(device_id: str) -> dict[str, str] | None:
    """Reason and moment (`since`, UTC) of a device that is set aside; None for one that is not."""
    try:
        found = json.loads(_path(device_id).read_text())
    except FileNotFoundError:
        return None
    return {"reason": str(found["reason"]), "since": str(found["since"])}
