"""Theoretical occupancy: how many warps of a launch an SM can hold at once.

Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; rules of allocation: the
occupancy calculator that ships with the toolkit.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....store.errors import UnsupportedError

WARP = 32
_REGISTER_UNIT = 256
"""Registers are given to warps in units of 256."""
_SUB_PARTITIONS = 4
_MOST_THREADS = 1024
_MOST_REGISTERS = 255


@dataclass(frozen=True)
class SmLimits:
    """What one SM of an architecture holds. Sizes in bytes, registers in 32-bit registers."""

    warps: int
    blocks: int
    shared: int
    shared_block: int
    """The most one block may have, static plus dynamic, once it has opted in above 48 KiB."""
    shared_reserved: int
    """What the driver takes from every block."""
    shared_unit: int
    registers: int = 65536


def _limits(warps: int, blocks: int, shared_kib: int) -> SmLimits:
    return SmLimits(warps, blocks, shared_kib << 10, (shared_kib - 1) << 10, 1024, 128)


LIMITS: dict[int, SmLimits] = {
    70: SmLimits(64, 32, 96 << 10, 96 << 10, 0, 256),
    72: SmLimits(64, 32, 96 << 10, 96 << 10, 0, 256),
    75: SmLimits(32, 16, 64 << 10, 64 << 10, 0, 256),
    80: _limits(64, 32, 164),
    86: _limits(48, 16, 100),
    87: _limits(48, 16, 164),
    88: _limits(48, 24, 100),
    89: _limits(48, 24, 100),
    90: _limits(64, 32, 228),
    100: _limits(64, 32, 228),
    101: _limits(48, 24, 228),
    103: _limits(64, 32, 228),
    110: _limits(48, 24, 228),
    120: _limits(48, 24, 100),
    121: _limits(48, 24, 100),
}
"""By compute capability × 10."""


@dataclass(frozen=True)
class Occupancy:
    """blocks: resident on one SM, 0 where the launch cannot run at all; warps: theirs; fraction: of the most, 0..1.

    limited_by: what would have to give for one more block (`warps`, `blocks`, `registers`, `shared`).
    """

    blocks: int
    warps: int
    fraction: float
    limited_by: str


def is_known(arch: str) -> bool:
    """Whether `limits_of` has the architecture."""
    return _number(arch) in LIMITS


def limits_of(arch: str) -> SmLimits:
    """The limits of `sm_90` or `sm_90a`. Raises UnsupportedError for an architecture that is not in the table."""
    number = _number(arch)
    if number not in LIMITS:
        known = ", ".join(f"sm_{number}" for number in LIMITS)
        raise UnsupportedError("no occupancy limits for this architecture", value=arch, next_step=f"Known: {known}.")
    return LIMITS[number]


def occupancy(arch: str, *, registers: int, threads: int, shared_bytes: int) -> Occupancy:
    """Occupancy of a launch of blocks of `threads` threads.

    registers: a thread; shared_bytes: a block, static plus dynamic. The SM is taken to be configured for as much shared
    memory as it has, as the driver does when a kernel needs it. Raises ValueError for numbers that are no launch.
    """
    if threads < 1 or registers < 0 or shared_bytes < 0:
        raise ValueError(f"not a launch: {registers} registers, {threads} threads, {shared_bytes} bytes shared")
    sm = limits_of(arch)
    warps = -(-threads // WARP)
    registers_warp = _up(registers * WARP, _REGISTER_UNIT)
    shared_block = _up(shared_bytes + sm.shared_reserved, sm.shared_unit)
    room = {"warps": sm.warps // warps if threads <= _MOST_THREADS else 0, "blocks": sm.blocks}
    if registers_warp:
        # The hardware checks a block as if its warps were spread evenly over the four sub-partitions, each with a
        # quarter of the registers.
        fits = registers <= _MOST_REGISTERS and registers_warp * _up(warps, _SUB_PARTITIONS) <= sm.registers
        warps_held = (sm.registers // _SUB_PARTITIONS // registers_warp) * _SUB_PARTITIONS
        room["registers"] = warps_held // warps if fits else 0
    if shared_block:
        room["shared"] = sm.shared // shared_block if shared_bytes <= sm.shared_block else 0
    limited_by = min(room, key=lambda name: room[name])
    blocks = room[limited_by]
    return Occupancy(blocks, blocks * warps, blocks * warps / sm.warps, limited_by)


def _number(arch: str) -> int:
    digits = arch.removeprefix("sm_").rstrip("af")
    return int(digits) if digits.isdigit() else 0


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
