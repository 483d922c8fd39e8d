from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kforecast.bench.languages.build import Build
from kforecast.bench.languages.cuda.pool import CompilePool
from kforecast.bench.languages.cuda.sass import count_sass, precision_labels, sass_mix
from kforecast.store.errors import DeviceError

LISTING = """
	.section	.text.first,"ax",@progbits
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0020*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0030*/             @!UP0 MUFU.EX2 R4, R4 ;
        /*0040*/                   NOP;
	.section	.text.second,"ax",@progbits
        /*0000*/                   HMMA.1688.F32.TF32 R4, R8, R12, R4 ;
        /*0010*/                   STG.E.64 desc[UR4][R2.64], R4 ;
"""

TWO = """extern "C" __global__ void a(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void b(float* x) { x[0] = exp2f(x[1]); }
"""


def test_a_listing_is_counted_by_function() -> None:
    assert count_sass(LISTING, {"first"}) == {"HMMA.16816.F32.BF16": 1, "LDC": 1, "LDG.128": 1, "MUFU.EX2": 1}
    assert count_sass(LISTING, {"second"}) == {"HMMA.1688.F32.TF32": 1, "STG.64": 1}
    assert precision_labels(count_sass(LISTING)) == ("mma-bf16", "mma-tf32")
    assert precision_labels({"HMMA.16816.F32": 1, "FFMA": 3, "IMMA.16832.S8.S8": 1}) == ("mma-f16", "mma-s8")


def test_both_disassemblers_give_the_same_mix_of_a_real_cubin(build: Callable[..., Build], pool: CompilePool) -> None:
    built = build(TWO, "a", "b")
    assert built.binary is not None
    mix = sass_mix(built.binary, {"a"}, pool=pool)
    assert mix["LDG.128"] == mix["STG.128"] == 1
    assert "MUFU.EX2" not in mix
    assert sass_mix(built.binary, {"b"}, pool=pool)["MUFU.EX2"] == 1
    with CompilePool(replace(pool.toolchain, nvdisasm=None), workers=1) as other:
        assert sass_mix(built.binary, pool=other) == sass_mix(built.binary, pool=pool)


def test_no_disassembler_and_no_cubin_are_errors(pool: CompilePool, tmp_path: Path) -> None:
    noise = tmp_path / "noise.cubin"
    noise.write_bytes(b"not a cubin")
    with pytest.raises(DeviceError, match="could not read the cubin"):
        sass_mix(noise, pool=pool)
    bare = CompilePool(replace(pool.toolchain, nvdisasm=None, cuobjdump=None), workers=1)
    with bare, pytest.raises(DeviceError, match="no disassembler"):
        sass_mix(noise, pool=bare)
