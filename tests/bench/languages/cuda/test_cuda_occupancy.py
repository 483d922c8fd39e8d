from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.languages.cuda.occupancy import LIMITS, limits_of, occupancy
from kforecast.store.errors import UnsupportedError

archs = st.sampled_from([f"sm_{number}" for number in LIMITS])
registers = st.integers(0, 255)
threads = st.integers(1, 1024)
shared = st.integers(0, 230_000)

# (compute capability, registers, threads, shared bytes, resident blocks), as the toolkit's own calculator
# (cuda_occupancy.h of CUDA 13.0, compiled on the host) answers them.
KNOWN = [
    (70, 96, 96, 70000, 1), (70, 128, 160, 100, 3), (70, 32, 32, 24576, 4), (70, 64, 160, 4096, 6),
    (75, 32, 256, 0, 4), (75, 64, 1024, 0, 1), (80, 32, 256, 0, 8), (80, 64, 256, 0, 4), (80, 255, 256, 0, 1),
    (86, 40, 256, 0, 6), (89, 32, 32, 0, 24), (90, 16, 1024, 232448, 1), (90, 16, 1024, 232449, 0),
    (90, 33, 1024, 0, 1), (90, 168, 384, 0, 1), (90, 255, 1024, 0, 0),
    (100, 16, 64, 101376, 2), (100, 96, 160, 65000, 3), (100, 63, 128, 100, 8), (100, 16, 160, 4096, 12),
    (103, 33, 32, 65000, 3), (103, 40, 64, 49152, 4), (103, 63, 160, 24576, 6), (110, 64, 384, 70000, 2),
    (110, 128, 96, 4096, 5), (110, 168, 32, 4096, 12), (120, 128, 256, 49152, 2), (120, 168, 64, 1024, 6),
    (120, 32, 32, 12000, 7), (120, 32, 128, 100, 12),
]  # fmt: skip


@pytest.mark.parametrize(("capability", "regs", "block", "smem", "blocks"), KNOWN)
def test_known_values(capability: int, regs: int, block: int, smem: int, blocks: int) -> None:
    assert occupancy(f"sm_{capability}", registers=regs, threads=block, shared_bytes=smem).blocks == blocks


@given(archs, registers, threads, shared)
def test_a_fraction_of_the_warps_and_never_more_than_the_sm_holds(arch: str, regs: int, block: int, smem: int) -> None:
    found = occupancy(arch, registers=regs, threads=block, shared_bytes=smem)
    sm = limits_of(arch)
    assert 0 <= found.warps <= sm.warps
    assert 0 <= found.blocks <= sm.blocks
    assert found.fraction == found.warps / sm.warps
    assert found.blocks * block * regs <= sm.registers
    assert found.blocks * smem <= sm.shared


@given(archs, registers, threads, shared, st.tuples(st.integers(0, 100), st.integers(0, 50_000)))
def test_more_registers_or_shared_memory_never_hold_more_blocks(
    arch: str, regs: int, block: int, smem: int, more: tuple[int, int]
) -> None:
    more_regs, more_smem = more
    base = occupancy(arch, registers=regs, threads=block, shared_bytes=smem)
    assert occupancy(arch, registers=regs + more_regs, threads=block, shared_bytes=smem).blocks <= base.blocks
    assert occupancy(arch, registers=regs, threads=block, shared_bytes=smem + more_smem).blocks <= base.blocks


def test_what_limits_is_named() -> None:
    assert occupancy("sm_90", registers=16, threads=1024, shared_bytes=0).limited_by == "warps"
    assert occupancy("sm_90", registers=16, threads=32, shared_bytes=0).limited_by == "blocks"
    assert occupancy("sm_90", registers=128, threads=256, shared_bytes=0).limited_by == "registers"
    assert occupancy("sm_90a", registers=16, threads=256, shared_bytes=200_000).limited_by == "shared"
    assert occupancy("sm_90", registers=16, threads=1025, shared_bytes=0).blocks == 0


def test_unknown_architectures_and_impossible_launches_are_errors() -> None:
    with pytest.raises(UnsupportedError, match="sm_61"):
        occupancy("sm_61", registers=16, threads=32, shared_bytes=0)
    with pytest.raises(ValueError, match="not a launch"):
        occupancy("sm_90", registers=16, threads=0, shared_bytes=0)
