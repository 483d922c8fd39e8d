"""Names of owners that tell whether their process still lives: `broker:PID:START`, START in clock ticks since boot."""

from __future__ import annotations

import os
from pathlib import Path


def owner_name(role: str) -> str:
    """This process as an owner of requests."""
    return f"{role}:{os.getpid()}:{_start_ticks(os.getpid())}"


def is_alive(owner: str) -> bool:
    """Whether the process that this owner names runs; a later process of the same number does not count."""
    parts = owner.split(":")
    if len(parts) != 3 or not parts[1].isdigit():
        return False
    ticks = _start_ticks(int(parts[1]))
    return ticks is not None and ticks == parts[2]


def _start_ticks(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the command's name, in parentheses, may hold blanks
    return None if fields[0] == "Z" else fields[19]
