from __future__ import annotations

from pathlib import Path

import pytest

from kforecast.bench.devices.cuda.inspection import verdict_of
from kforecast.bench.devices.cuda.sanitizer import Findings, Tool, options, parse

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at softmax_rows(const float *, float *, int, int)+0x1d0
=========     by thread (31,0,0) in block (6,0,0)
=========     Address 0x7f1c4b200e00 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f1c4b200a00 of size 1024 bytes
========= 
========= Invalid __global__ write of size 4 bytes
=========     at softmax_rows(const float *, float *, int, int)+0x1d0
=========     by thread (30,0,0) in block (6,0,0)
========= 
========= ERROR SUMMARY: 2 errors
"""
RACECHECK = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sum_all(const float *, float *, int)+0x2a0
=========     and Read access at sum_all(const float *, float *, int)+0x310 [124 hazards]
========= 
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
CLEAN_MEMORY = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
CLEAN_RACES = "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"


def test_memory_errors_are_counted_and_the_first_is_placed() -> None:
    found = parse("memcheck", MEMCHECK)
    assert found.count == 2
    assert found.first.startswith("Invalid __global__ write of size 4 bytes at softmax_rows(")


def test_races_are_counted_with_their_warnings() -> None:
    found = parse("racecheck", RACECHECK)
    assert found.count == 1 and found.first.startswith("Race reported between Write access at sum_all(")
    both = RACECHECK.replace("1 hazard displayed (1 error, 0 warnings)", "3 hazards displayed (1 error, 2 warnings)")
    assert parse("racecheck", both).count == 3


@pytest.mark.parametrize(("tool", "text"), [("memcheck", CLEAN_MEMORY), ("racecheck", CLEAN_RACES)])
def test_a_clean_log(tool: Tool, text: str) -> None:
    assert parse(tool, text) == Findings(0)


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_a_log_without_a_summary_is_no_result(tool: Tool) -> None:
    assert parse(tool, "") == Findings(None, "it printed no summary")
    text = "========= COMPUTE-SANITIZER\n========= Error: Device not supported. Please refer to the documentation\n"
    assert parse(tool, text) == Findings(None, "Error: Device not supported. Please refer to the documentation")


def test_a_memory_error_quarantines_and_a_race_labels() -> None:
    seen = verdict_of({"memcheck": parse("memcheck", MEMCHECK), "racecheck": parse("racecheck", CLEAN_RACES)})
    assert seen.quarantine is not None and "2 memory errors" in seen.quarantine and seen.labels == ()
    seen = verdict_of({"memcheck": parse("memcheck", CLEAN_MEMORY), "racecheck": parse("racecheck", RACECHECK)})
    assert seen.quarantine is None and seen.labels == ("race",)
    assert any("1 hazard in shared memory" in note for note in seen.notes)


def test_clean_tools_say_so_and_a_tool_without_a_result_does_not_pass_for_one() -> None:
    clean = verdict_of({"memcheck": Findings(0), "racecheck": Findings(0)})
    assert clean.notes == ("compute-sanitizer: memcheck and racecheck found nothing on a small case",)
    late = verdict_of({"memcheck": Findings(0), "racecheck": Findings(None, "it did not end within 60 s")})
    assert "racecheck came to no result: it did not end within 60 s" in late.notes
    assert not any("racecheck found nothing" in note for note in late.notes) and late.quarantine is None


def test_memcheck_keeps_allocations_apart_and_both_write_a_log_that_the_kernel_cannot() -> None:
    assert "--padding" in options("memcheck", Path("log")) and "--padding" not in options("racecheck", Path("log"))
    assert all("--log-file" in options(tool, Path("log")) for tool in ("memcheck", "racecheck"))
