from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kforecast.bench.devices.cuda.ncu import Counters, options, parse, refusal, words

TIME, DRAM, L2 = (
    "gpu__time_duration.sum",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
)
SM, OCCUPANCY = (
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)
LONG = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
WAIT = "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio"
GMMA = "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio"

COLUMNS = (
    ("ID", "", "0"),
    ("Process ID", "", "4711"),
    ("Process Name", "", "python3.12"),
    ("Host Name", "", "127.0.0.1"),
    ("Kernel Name", "", "softmax_rows(const float *, float *, int, int)"),
    ("Context", "", "1"),
    ("Stream", "", "7"),
    ("Block Size", "", "(256, 1, 1)"),
    ("Grid Size", "", "(8192, 1, 1)"),
    ("Device", "", "0"),
    ("CC", "", "9.0"),
    (DRAM, "%", "86.41"),
    (TIME, "ns", "130,912"),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "", "0"),
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "", "65,536"),
    ("launch__registers_per_thread", "register/thread", "32"),
    (L2, "%", "41.20"),
    (SM, "%", "22.75"),
    (OCCUPANCY, "%", "93.10"),
    (GMMA, "inst", "0"),
    (LONG, "inst", "12.40"),
    (WAIT, "inst", "1.60"),
)
LOG = "\n".join(
    [
        "==PROF== Connected to process 4711 (/usr/bin/python3.12)",
        '==PROF== Profiling "softmax_rows": 0%....50%....100% - 5 passes',
        "==PROF== Disconnected from process 4711",
        *(",".join(f'"{cell}"' for cell in line) for line in zip(*COLUMNS, strict=True)),
        "",
    ]
)

MEMORY = Counters("k", 130.9, dram_pct=86.4, l2_pct=41.2, sm_pct=22.8, occupancy_pct=93.1, registers=32)


def test_the_raw_page_is_read_whatever_stands_before_it() -> None:
    (found,) = parse(LOG)
    assert found.kernel == "softmax_rows"
    assert found.time_us == pytest.approx(130.912)
    assert (found.dram_pct, found.l2_pct, found.sm_pct) == (86.41, 41.2, 22.75)
    assert (found.registers, found.bank_conflicts, found.wavefronts) == (32, 0, 65536)
    assert found.stalls == {"gmma": 0, "long_scoreboard": 12.4, "wait": 1.6}


def test_units_of_time_are_those_of_the_file() -> None:
    assert parse(LOG.replace('"ns"', '"nsecond"'))[0].time_us == pytest.approx(130.912)
    assert parse(LOG.replace('"ns"', '"us"').replace("130,912", "130.912"))[0].time_us == pytest.approx(130.912)


def test_a_counter_that_is_not_there_is_left_out() -> None:
    (found,) = parse(LOG.replace('"86.41"', '"n/a"'))
    assert found.dram_pct is None and "DRAM" not in words([found])[0]


@pytest.mark.parametrize("text", ["", "==PROF== Connected to process 1\n", '"ID","x"\n', '"ID","Kernel Name"\n"",""\n'])
def test_no_kernel_is_no_counters(text: str) -> None:
    assert parse(text) == [] and words([]) == ()


def test_why_nothing_was_counted() -> None:
    denied = (
        "==PROF== Connected to process 99 (/usr/bin/python3)\n"
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters "
        "on the target device 0.\n"
        "==PROF== Disconnected from process 99\n"
    )
    assert "ERR_NVGPUCTRPERM" in refusal(denied) and "administrators" in refusal(denied)
    assert refusal("==ERROR== Failed to find metric x\n==ERROR== later\n") == "Failed to find metric x"
    assert refusal("==WARNING== No kernels were profiled.\n") == "it counted no kernel"


def test_words_name_what_is_busy_and_what_warps_wait_for() -> None:
    (text,) = words(parse(LOG))
    assert text.startswith("memory-bound: DRAM at 86% of peak (L2 at 41%, the SMs at 23%)")
    assert "occupancy 93% with 32 registers a thread" in text
    assert "global or local memory (89%), then for the fixed latency of their last instruction (11%)" in text
    assert "bank conflicts" not in text


@pytest.mark.parametrize(
    ("dram", "l2", "sm", "expected"),
    [(20, 85, 30, "L2-bound: L2 at 85%"), (20, 30, 91, "compute-bound: the SMs at 91%"), (20, 30, 41, "latency-bound")],
)
def test_the_busiest_part_names_the_bound(dram: float, l2: float, sm: float, expected: str) -> None:
    assert words([replace(MEMORY, dram_pct=dram, l2_pct=l2, sm_pct=sm)])[0].startswith(expected)


def test_bank_conflicts_are_told_where_they_matter() -> None:
    assert "bank conflicts make 75%" in words([replace(MEMORY, bank_conflicts=75.0, wavefronts=100.0)])[0]
    assert "bank conflicts" not in words([replace(MEMORY, bank_conflicts=2.0, wavefronts=100.0)])[0]


def test_several_kernels_come_with_their_share_the_longest_first() -> None:
    launches = [
        replace(MEMORY, kernel=name, time_us=us) for name, us in [("a", 1.0), ("b", 6.0), ("a", 2.0), ("c", 1.0)]
    ]
    first, second, third = words(launches)
    assert first.startswith("b (60% of the time)") and second.startswith("a (30%") and third.startswith("c (10%")


def test_even_waits_without_a_dominant_one_give_a_sentence() -> None:
    stalls = dict.fromkeys(("wait", "drain", "barrier", "membar", "branch_resolving", "sleeping", "gmma"), 1.0)
    many = {**stalls, "imc_miss": 1.0, "no_instruction": 1.0, "dispatch_stall": 1.0, "not_selected": 1.0}
    assert "wait mostly" not in words([replace(MEMORY, stalls=many)])[0]


def test_options_leave_clocks_alone_and_ask_for_counters_that_the_architecture_has() -> None:
    hopper, ampere = options(Path("/tmp/log"), "sm_90"), options(Path("/tmp/log"), "sm_80")
    assert hopper[:2] == ["--clock-control", "none"]
    assert GMMA in hopper[-1] and GMMA not in ampere[-1] and LONG in ampere[-1]
