"""Programs with a main() of their own, from a path to an answer. What needs a GPU is in scripts/gpu/programs.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kforecast.app.measure import measure_command
from kforecast.bench.languages.cuda import nvcc
from kforecast.bench.languages.cuda.pool import shared_pool
from kforecast.bench.programs.source import is_program
from kforecast.store import programs
from kforecast.store.database import Store
from kforecast.store.errors import InputError, UnsupportedError
from kforecast.tools import programs as tool
from kforecast.tools.programs import measure_program

PROGRAMS = Path(__file__).parents[1] / "exhibits" / "programs"
KERNEL = Path(__file__).parents[2] / "bench" / "tasks" / "builtin" / "vector_add" / "seed.cu"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were a GPU: the programs of these tests launch nothing."""
    if not nvcc.usable(shared_pool()):
        pytest.skip("needs nvcc and g++")
    monkeypatch.setattr(tool, "_gpu", lambda device: tool._Gpu("cuda:0", "GPU-test", "sm_90"))


def test_programs_are_told_from_kernels(tmp_path: Path) -> None:
    assert all(is_program(str(path)) for path in PROGRAMS.glob("*.cu"))
    assert not is_program(str(KERNEL))
    both = tmp_path / "both.cu"
    both.write_text(KERNEL.read_text() + "\nint main() { return 0; }\n")
    assert not is_program(str(both))
    for odd in ("missing.cu", "int main() {\n}", "x.py", str(tmp_path)):
        assert not is_program(odd)


@pytest.mark.usefixtures("gpu")
def test_a_run_is_answered_and_remembered_without_a_verdict() -> None:
    with Store.open() as store:
        result = measure_program(str(PROGRAMS / "cpu_only.cu"), store=store, timeout_s=30.0)
        run = result.run
        assert (run.outcome, run.exit_code) == ("ran", 0), (run.reason, run.output)
        assert "unknown" in result.summary and "correct" not in result.summary
        assert any("nobody said what it should compute" in note for note in run.notes)
        assert run.kernels == ()
        assert run.wall_s is not None
        assert "network refused" in run.output
        assert "passwd refused" in run.output or "Landlock" not in run.isolation
        assert programs.get(store, run.id) == run
        assert programs.recent(store) == [run]
        assert not store.read("SELECT 1 FROM measurements")


@pytest.mark.usefixtures("gpu")
def test_what_does_not_compile_is_an_answer() -> None:
    result = CliRunner().invoke(
        measure_command, [str(PROGRAMS / "does_not_compile.cu"), "--json"], standalone_mode=False
    )
    assert result.return_value == 1
    told = json.loads(result.stdout)
    assert told["run"]["outcome"] == "compile_error"
    assert "not_declared" in told["run"]["reason"]
    assert "does_not_compile.cu" in told["run"]["diagnostics"]


@pytest.mark.usefixtures("gpu")
def test_the_page_says_how_it_ended_and_shows_its_output() -> None:
    result = CliRunner().invoke(measure_command, [str(PROGRAMS / "cpu_only.cu")], standalone_mode=False)
    assert result.return_value == 0, result.output
    assert "ran  cpu_only.cu ran to its end; whether it is right is unknown." in result.output
    assert "| passwd" in result.output
    assert all(len(line) <= 80 or line.startswith("  |") for line in result.output.splitlines())


def test_what_cannot_be_asked_of_a_program() -> None:
    program = str(PROGRAMS / "cpu_only.cu")
    for arguments, words in (
        ([program, "--task", "vector_add"], "no kernel header"),
        ([program, "--set", "N=4"], "--set"),
        ([program, program], "one at a time"),
    ):
        result = CliRunner().invoke(measure_command, arguments, standalone_mode=False)
        assert isinstance(result.exception, InputError)
        assert words in str(result.exception)
    with pytest.raises(InputError, match="no program"):
        measure_program(program, baseline=str(KERNEL))
    with pytest.raises(InputError, match="option"):
        measure_program(program, options=["-o/etc/passwd"])


def test_a_program_in_c_is_said_to_be_none_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "program.c"
    path.write_text("int main(void) { return 0; }\n")
    assert is_program(str(path))
    with pytest.raises(UnsupportedError, match="C program"):
        measure_program(str(path))
