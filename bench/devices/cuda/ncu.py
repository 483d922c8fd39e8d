"""Nsight Compute's counters in words: which part of the GPU a kernel keeps busy, and what its warps wait for."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_TIME = "gpu__time_duration.sum"
_DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
_L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
_SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
_OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
_REGISTERS = "launch__registers_per_thread"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_STALLS = {
    "long_scoreboard": "global or local memory",
    "short_scoreboard": "shared memory or special functions",
    "barrier": "a block barrier",
    "membar": "a memory fence",
    "lg_throttle": "room in the queue to global memory",
    "mio_throttle": "room in the queue to shared memory",
    "tex_throttle": "room in the queue to the texture unit",
    "math_pipe_throttle": "a busy arithmetic unit",
    "wait": "the fixed latency of their last instruction",
    "not_selected": "their turn (other warps were ready too)",
    "no_instruction": "instructions to be fetched",
    "branch_resolving": "a branch",
    "dispatch_stall": "the dispatcher",
    "imc_miss": "constants",
    "drain": "stores to drain before they end",
    "sleeping": "the end of a sleep",
    "gmma": "a warp group's matrix instruction",
}
_ONLY_ON = {"gmma": "sm_90"}
_NANOSECONDS = {"n": 1.0, "u": 1e3, "m": 1e6, "s": 1e9}
"""By the first letter of the unit, which versions write as `ns` or `nsecond`."""

_BUSY_PCT = 60.0
_MOST_LAUNCHES = 16


@dataclass(frozen=True)
class Counters:
    """One launch of one kernel as Nsight Compute counted it, cold caches. Percentages of what the hardware can sustain.

    stalls: cycles that warps waited per issued instruction, by reason. None: the counter is not there.
    """

    kernel: str
    time_us: float
    dram_pct: float | None = None
    l2_pct: float | None = None
    sm_pct: float | None = None
    occupancy_pct: float | None = None
    registers: int | None = None
    bank_conflicts: float | None = None
    """Shared memory wavefronts that conflicts added."""
    wavefronts: float | None = None
    stalls: dict[str, float] = field(default_factory=dict)


def options(log: Path, arch: str) -> list[str]:
    """Options, before the program to count, that make Nsight Compute write CSV to `log`. Clocks stay as they are."""
    stalls = [_STALL.format(reason) for reason in _STALLS if _ONLY_ON.get(reason, arch) == arch]
    metrics = [_TIME, _DRAM, _L2, _SM, _OCCUPANCY, _REGISTERS, _CONFLICTS, _WAVEFRONTS, *stalls]
    written = ["--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)]
    return ["--clock-control", "none", *written, "--launch-count", str(_MOST_LAUNCHES), "--metrics", ",".join(metrics)]


def parse(text: str) -> list[Counters]:
    """The launches in the raw page's CSV (a line of names, one of units, one a launch), whatever stands before it."""
    start = text.find('"ID"')
    if start < 0:
        return []
    lines = [row for row in csv.reader(io.StringIO(text[start:])) if len(row) > 1]
    if len(lines) < 2:
        return []
    names, units, *rows = lines
    found = []
    for row in rows:
        values = dict(zip(names, row, strict=False))
        numbers = {name: _number(value) for name, value in values.items()}
        unit = dict(zip(names, units, strict=False)).get(_TIME, "ns")
        time_ns = numbers.get(_TIME)
        if time_ns is None:
            continue
        stalls = {reason: numbers.get(_STALL.format(reason)) for reason in _STALLS}
        registers = numbers.get(_REGISTERS)
        found.append(
            Counters(
                kernel=values.get("Kernel Name", "").partition("(")[0],
                time_us=time_ns * _NANOSECONDS.get(unit[:1], 1.0) / 1e3,
                dram_pct=numbers.get(_DRAM),
                l2_pct=numbers.get(_L2),
                sm_pct=numbers.get(_SM),
                occupancy_pct=numbers.get(_OCCUPANCY),
                registers=None if registers is None else int(registers),
                bank_conflicts=numbers.get(_CONFLICTS),
                wavefronts=numbers.get(_WAVEFRONTS),
                stalls={reason: value for reason, value in stalls.items() if value is not None},
            )
        )
    return found


def refusal(text: str) -> str:
    """Why Nsight Compute counted nothing, from what it printed."""
    if "ERR_NVGPUCTRPERM" in text:
        return "the driver lets only administrators read the GPU's counters (ERR_NVGPUCTRPERM)"
    errors = re.findall(r"^==ERROR==\s*(.+)$", text, re.MULTILINE)
    return errors[0].strip() if errors else "it counted no kernel"


def words(launches: Sequence[Counters]) -> tuple[str, ...]:
    """One sentence a kernel, the one that took longest first, at most three; with shares where there are several."""
    by_kernel: dict[str, list[Counters]] = {}
    for launch in launches:
        by_kernel.setdefault(launch.kernel, []).append(launch)
    total = sum(launch.time_us for launch in launches) or 1.0
    ranked = sorted(by_kernel.values(), key=lambda group: -sum(launch.time_us for launch in group))
    sentences = []
    for group in ranked[:3]:
        longest = max(group, key=lambda launch: launch.time_us)
        share = sum(launch.time_us for launch in group) / total
        head = f"{longest.kernel} ({100 * share:.0f}% of the time): " if len(ranked) > 1 else ""
        sentences.append(head + _sentence(longest))
    return tuple(sentences)


def _sentence(found: Counters) -> str:
    parts = [_bound(found)]
    if found.occupancy_pct is not None:
        registers = "" if found.registers is None else f" with {found.registers} registers a thread"
        parts.append(f"occupancy {found.occupancy_pct:.0f}%{registers}")
    waits = _waits(found.stalls)
    if waits:
        parts.append(waits)
    if found.wavefronts and found.bank_conflicts is not None and found.bank_conflicts / found.wavefronts >= 0.05:
        share = 100 * found.bank_conflicts / found.wavefronts
        parts.append(f"bank conflicts make {share:.0f}% of the shared memory traffic")
    return "; ".join(parts)


def _bound(found: Counters) -> str:
    levels = {"DRAM": found.dram_pct, "L2": found.l2_pct, "the SMs": found.sm_pct}
    known = {name: value for name, value in levels.items() if value is not None}
    if not known:
        return "no counter of throughput"
    told = {name: f"{name} at {value:.0f}%" for name, value in known.items()}
    busiest = max(known, key=lambda name: known[name])
    others = ", ".join(text for name, text in told.items() if name != busiest)
    others = f" ({others})" if others else ""
    if known[busiest] < _BUSY_PCT:
        return f"latency-bound: nothing is busy: {', '.join(told.values())} of peak"
    kind = {"DRAM": "memory-bound", "L2": "L2-bound", "the SMs": "compute-bound"}[busiest]
    return f"{kind}: {told[busiest]} of peak{others}"


def _waits(stalls: dict[str, float]) -> str:
    total = sum(stalls.values())
    if not total:
        return ""
    top = sorted(stalls, key=lambda reason: -stalls[reason])[:2]
    told = [f"{_STALLS[r]} ({100 * stalls[r] / total:.0f}%)" for r in top if stalls[r] / total >= 0.1]
    return "warps wait mostly for " + ", then for ".join(told) if told else ""


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
