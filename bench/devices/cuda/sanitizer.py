"""compute-sanitizer's findings: memory errors and races that a right answer can hide."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Tool = Literal["memcheck", "racecheck"]

_PADDING = 256
"""Bytes that no tensor owns behind each allocation: without them the next tensor would hide an access past the end."""
_MEMCHECK = re.compile(r"ERROR SUMMARY: (\d+) errors?")
_RACECHECK = re.compile(r"RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?, (\d+) warnings?\)")
_FINDING = re.compile(
    r"^========= (?:Error: |Warning: )?((?:Invalid|Misaligned|Race reported|Potential)\b.*)$", re.MULTILINE
)
_PLACE = re.compile(r"^=========\s+at (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Findings:
    """What one tool found. count: None where it came to no end, and `first` says why; else how many, and the first."""

    count: int | None
    first: str = ""


def options(tool: Tool, log: Path) -> list[str]:
    """The options, before the program to watch, that make compute-sanitizer write what it finds to `log`."""
    found = ["--tool", tool, "--log-file", str(log), "--show-backtrace", "no", "--print-limit", "20"]
    if tool == "memcheck":
        found += ["--padding", str(_PADDING), "--report-api-errors", "no"]
    return found


def parse(tool: Tool, text: str) -> Findings:
    """Read a tool's log. Racecheck's warnings count: a hazard is one whatever the order that was seen."""
    summary = (_MEMCHECK if tool == "memcheck" else _RACECHECK).search(text)
    if summary is None:
        lines = [line.removeprefix("=========").strip() for line in text.splitlines()]
        told = [line for line in lines if line and not line.startswith("COMPUTE-SANITIZER")]
        return Findings(None, told[0] if told else "it printed no summary")
    count = sum(int(number) for number in summary.groups())
    finding, place = _FINDING.search(text), _PLACE.search(text)
    if not count or finding is None:
        return Findings(count)
    where = "" if tool == "racecheck" or place is None else f" at {place.group(1).strip()}"
    return Findings(count, finding.group(1).strip() + where)
