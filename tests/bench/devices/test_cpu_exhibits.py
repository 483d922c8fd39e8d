"""Kernels that are wrong, and kernels that misbehave: each gets its verdict, and the machine is as it was before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from measured import expectation, measured

from kforecast.bench.devices.cpu.lane import CpuLane
from kforecast.bench.tasks.builtin import builtin_kernel
from kforecast.store.paths import cache_dir

EXHIBITS = Path(__file__).parents[2] / "exhibits"
SLOW_TO_FAIL = {"eats_memory"}  # it touches gigabytes before the limit stops it


def _ids(folder: str) -> list[str]:
    return sorted(path.stem for path in (EXHIBITS / folder).glob("*.c"))


def _children() -> set[int]:
    own = os.getpid()
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == own:
            found.add(int(entry.parent.name))
    return found


@pytest.fixture
def lane() -> CpuLane:
    return CpuLane(cache_dir())


@pytest.mark.parametrize("name", _ids("bad"))
def test_a_kernel_that_misbehaves_gets_its_verdict_and_leaves_nothing(name: str, lane: CpuLane) -> None:
    path = EXHIBITS / "bad" / f"{name}.c"
    before = _children()
    files = len(list(Path("/proc/self/fd").iterdir()))
    result = measured(path, lane, deadline_s=10.0 if name in SLOW_TO_FAIL else 1.5)
    allowed = expectation(path) | ({"timeout"} if name in SLOW_TO_FAIL else set())
    assert result.verdict in allowed, result.reason
    assert result.verdict == "ok" or result.reason
    assert _children() == before
    assert len(list(Path("/proc/self/fd").iterdir())) <= files


@pytest.mark.parametrize("name", _ids("wrong"))
def test_a_wrong_kernel_is_incorrect_and_the_first_mismatch_is_named(name: str, lane: CpuLane) -> None:
    result = measured(EXHIBITS / "wrong" / f"{name}.c", lane)
    assert result.verdict == "incorrect", (result.verdict, result.reason)
    assert result.log2_speedup is None
    assert result.reason
    if result.mismatch is not None:  # absent where it wrote outside its tensors
        assert result.mismatch.case
        assert result.mismatch.want != result.mismatch.got


def test_the_next_kernel_is_unaffected_by_one_that_crashed(lane: CpuLane) -> None:
    seed = builtin_kernel("vector_add", "c", "seed")
    assert seed is not None
    assert measured(EXHIBITS / "bad" / "crash_null.c", lane).verdict == "crashed"
    after = measured(seed, lane)
    assert after.verdict == "ok"
    assert after.time_us is not None
    assert after.time_us > 0


def test_an_out_of_bounds_write_names_the_tensor(lane: CpuLane) -> None:
    result = measured(EXHIBITS / "bad" / "out_of_bounds_near.c", lane)
    assert "outside c" in result.reason
    assert "past its end" in result.reason


def test_a_write_to_an_input_names_it(lane: CpuLane) -> None:
    result = measured(EXHIBITS / "bad" / "writes_input.c", lane)
    assert result.verdict == "crashed"
    assert "input" in result.reason
    assert " a," in result.reason


def test_a_compile_error_carries_the_users_line(lane: CpuLane) -> None:
    result = measured(EXHIBITS / "bad" / "compile_error.c", lane)
    assert "compile_error.c:10:" in result.reason


def test_printed_text_is_kept_as_diagnostics(lane: CpuLane, tmp_path: Path) -> None:
    source = (EXHIBITS / "bad" / "crash_null.c").read_text()
    body = source.index("{", source.index("void vector_add")) + 1
    noisy = tmp_path / "noisy.c"
    noisy.write_text(
        source[:body].replace("void vector_add", "#include <stdio.h>\nvoid vector_add")
        + '\n    fprintf(stderr, "about to fail\\n");'
        + source[body:]
    )
    result = measured(noisy, lane)
    assert result.verdict == "crashed"
    assert "about to fail" in result.diagnostics
