"""The plan that a profiler's or sanitizer's process gets, and which case it is about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kforecast.bench.devices.cuda.inspection import find_tool, plan_of, profile, sanitize, small_case
from kforecast.bench.header.signature import signatures
from kforecast.bench.lane import Program
from kforecast.bench.languages.build import Build
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.bench.tasks.shapes import bytes_of
from kforecast.store.models import Case, Facts, Kernel, Launch, Scratch, Task

CONSTANTS = {"WARP": 32, "SM_COUNT": 132, "SMEM_MAX": 232448}
TASK = builtin_task("histogram")


@pytest.fixture
def program() -> Program:
    kernel = Kernel.make(
        language="cuda",
        name="h.cu",
        source='extern "C" __global__ void count(const int* x, int* h, unsigned* part, int N, int BINS) {}',
        launches=(
            Launch(
                entry="count",
                args=("x", "h", "part", "N", "BINS"),
                grid=("SM_COUNT",),
                block=("8*WARP",),
                smem="4*BINS",
            ),
        ),
        scratch=(Scratch(name="part", dtype="u32", shape=("SM_COUNT", "BINS"), zero=True),),
        task_id=TASK.id,
    )
    build = Build(Path("/cache/kernel.cubin"), Facts(ok=True), {"count": "count"})
    return Program(kernel, tuple(signatures(kernel.source, "cuda", {})), build)


def test_the_plan_holds_geometry_scratch_and_arguments_by_name(program: Program) -> None:
    plan = json.loads(json.dumps(plan_of(program, TASK, Case(sizes={"N": 1000, "BINS": 64}), CONSTANTS, 1)))
    assert plan["ordinal"] == 1 and plan["cubin"] == "/cache/kernel.cubin"
    assert plan["scratch"] == {"part": 4 * 132 * 64} and set(plan["zero"]) == {"h", "part"}
    (launch,) = plan["launches"]
    assert launch["grid"][0] == 132 and launch["block"][0] == 256 and launch["smem"] == 256
    assert launch["args"] == [["t", "x"], ["t", "h"], ["t", "part"], ["s", 1000], ["s", 64]]
    assert Task.model_validate(plan["task"]) == TASK


def test_every_plan_has_inputs_of_its_own(program: Program) -> None:
    case = TASK.checked[0]
    assert plan_of(program, TASK, case, CONSTANTS, 0)["seed"] != plan_of(program, TASK, case, CONSTANTS, 0)["seed"]


def test_the_small_case_is_the_largest_that_is_small() -> None:
    add = builtin_task("vector_add")
    cases = tuple(Case(sizes={"N": n}) for n in (1 << 30, 1 << 20, 100))
    assert small_case(add.model_copy(update={"checked": cases})) == cases[1]
    assert small_case(add.model_copy(update={"checked": cases[:1]})) == cases[0]
    assert sum(bytes_of(tensor, cases[1]) for tensor in add.tensors) <= 16 << 20


def test_a_missing_tool_is_a_note(program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("kforecast.bench.devices.cuda.inspection.find_tool", lambda name: None)
    assert "ncu" in profile(program, TASK, CONSTANTS, 0, "sm_90").notes[0]
    seen = sanitize(program, TASK, CONSTANTS, 0)
    assert "compute-sanitizer is not on PATH" in seen.notes[0] and seen.quarantine is None and seen.labels == ()


def tool(folder: Path, name: str, script: str) -> None:
    """A stand-in on PATH that writes to its `--log-file` as the real tool would."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nfor a in "$@"; do [ "$last" = --log-file ] && log=$a; last=$a; done\n{script}\n')
    path.chmod(0o755)


def test_the_tools_logs_are_what_counts(program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tool(tmp_path, "ncu", 'echo "==ERROR== ERR_NVGPUCTRPERM - no permission" >"$log"; exit 1')
    tool(
        tmp_path,
        "compute-sanitizer",
        'echo "========= ERROR SUMMARY: 9 errors"\n'  # what a kernel could print
        'if [ "$2" = memcheck ]; then echo "========= ERROR SUMMARY: 0 errors" >"$log"; else exit 1; fi',
    )
    assert find_tool("ncu") == tmp_path / "ncu"
    (note,) = profile(program, TASK, CONSTANTS, 0, "sm_90").notes
    assert "ERR_NVGPUCTRPERM" in note
    seen = sanitize(program, TASK, CONSTANTS, 0)
    assert seen.quarantine is None
    assert any("memcheck found nothing" in note for note in seen.notes)
    assert any("racecheck came to no result" in note for note in seen.notes)


def test_a_tool_that_does_not_end_is_ended(program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("kforecast.bench.devices.cuda.inspection.DEADLINE_S", 1.2)
    tool(tmp_path, "ncu", "sleep 60")
    tool(tmp_path, "compute-sanitizer", "sleep 60")
    assert "more than 1.2 s" in profile(program, TASK, CONSTANTS, 0, "sm_90").notes[0]
    notes = sanitize(program, TASK, CONSTANTS, 0).notes
    assert "memcheck came to no result: it did not end within 1.2 s" in notes
    assert any("racecheck came to no result: no time was left" in note for note in notes)
