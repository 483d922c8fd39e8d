"""Registers, spills, shared and local memory of each entry, as ptxas or cuobjdump prints them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+(\d+))? bytes smem")
_PTXAS_INFO = re.compile(r"^ptxas (?:info\s*:|\s+\.).*(?:\n|\Z)|^\s+\d+ bytes stack frame.*(?:\n|\Z)", re.MULTILINE)
_CUOBJDUMP = re.compile(r"Function (\S+):\s*\n\s*(REG:.*)")


@dataclass(frozen=True)
class Resources:
    """Of one entry: registers a thread, static shared bytes a block, stack and spill bytes a thread.

    spill_bytes: bytes stored plus bytes loaded; None where the source does not say (cuobjdump does not).
    """

    registers: int | None = None
    shared_bytes: int = 0
    local_bytes: int | None = None
    spill_bytes: int | None = None


def from_ptxas(log: str) -> dict[str, Resources]:
    """Resources by symbol from the log of `--ptxas-options=-v`. Properties of non-inlined callees are left out."""
    found: dict[str, Resources] = {}
    entry = about = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry = about = match.group(1)
            found[entry] = Resources()
        elif match := _PROPERTIES.search(line):
            about = match.group(1)
        elif (match := _FRAME.search(line)) and about == entry and entry in found:
            frame, stores, loads = (int(text) for text in match.groups())
            found[entry] = replace(found[entry], local_bytes=frame, spill_bytes=stores + loads)
        elif (match := _USED.search(line)) and entry in found:
            shared = _SHARED.search(line)
            static = sum(int(text) for text in shared.groups() if text) if shared else 0
            found[entry] = replace(found[entry], registers=int(match.group(1)), shared_bytes=static)
    return found


def from_cuobjdump(text: str, *, reserved_shared: int = 0) -> dict[str, Resources]:
    """Resources by symbol from `cuobjdump --dump-resource-usage`.

    reserved_shared: bytes a block that the driver reserves (1024 since sm_80), which cuobjdump counts and ptxas does
    not.
    """
    found = {}
    for symbol, numbers in _CUOBJDUMP.findall(text):
        values = {key: int(value) for key, value in re.findall(r"([A-Z]+):(\d+)", numbers)}
        found[symbol] = Resources(
            registers=values.get("REG"),
            shared_bytes=max(values.get("SHARED", 0) - reserved_shared, 0),
            local_bytes=values.get("STACK"),
        )
    return found


def without_ptxas_info(log: str) -> str:
    """A compiler's log without the lines that `from_ptxas` reads."""
    return _PTXAS_INFO.sub("", log).strip("\0 \n")
