"""Names of processes that tell whether it still lives: `ROLE:PID:START`, START in clock ticks since boot."""

from __future__ import annotations

import os
from pathlib import Path


def owner_name(role: str) -> str:
    """The name of this process in a role: as an owner of requests, or as the client that asked for them."""
    return f"{role}:{os.getpid()}:{_start_ticks(os.getpid())}"


def is_alive(name: str) -> bool:
    """Whether the process that this names runs; a later process of the same number does not count."""
    parts = name.split(":")
    if not _names_a_process(parts):
        return False
    ticks = _start_ticks(int(parts[1]))
    return ticks is not None and ticks == parts[2]


def is_gone(name: str) -> bool:
    """Whether this names a process that runs no more; False for a name that tells nothing (`mcp`, `search:7`)."""
    return _names_a_process(name.split(":")) and not is_alive(name)


def _names_a_process(parts: list[str]) -> bool:
    return len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal()


def _start_ticks(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the command's name, in parentheses, may hold blanks
    return None if fields[0] == "Z" else fields[19]
