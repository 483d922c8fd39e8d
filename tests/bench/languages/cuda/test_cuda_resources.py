from __future__ import annotations

from kforecast.bench.languages.cuda.resources import Resources, from_cuobjdump, from_ptxas, without_ptxas_info

LOG = """user.cu(7): warning #177-D: variable "z" was declared but never referenced
ptxas info    : 12 bytes gmem
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90'
ptxas info    : Function properties for _Z1kPf
ptxas         .     40 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads
ptxas info    : Function properties for helper
ptxas         .     8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 40 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 2.277 ms
ptxas info    : Compiling entry function 'plain' for 'sm_80'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 356 bytes cmem[0]
ptxas warning : something to know
"""


def test_each_entrys_numbers_from_the_log() -> None:
    assert from_ptxas(LOG) == {
        "_Z1kPf": Resources(registers=32, shared_bytes=1024, local_bytes=40, spill_bytes=52),
        "plain": Resources(registers=8, shared_bytes=0, local_bytes=0, spill_bytes=0),
    }


def test_what_is_left_of_a_log_is_the_compilers_word() -> None:
    assert without_ptxas_info(LOG).splitlines() == [
        'user.cu(7): warning #177-D: variable "z" was declared but never referenced',
        "ptxas warning : something to know",
    ]


def test_cuobjdump_counts_what_the_driver_reserves() -> None:
    text = (
        "Resource usage:\n Common:\n  GLOBAL:0\n Function mm:\n  REG:32 STACK:8 SHARED:2048 LOCAL:0 CONSTANT[0]:568\n"
    )
    assert from_cuobjdump(text, reserved_shared=1024)["mm"] == Resources(32, 1024, 8, None)
