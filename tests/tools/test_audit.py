"""What an audit says of files, kernels and measurements; findings never decide its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kforecast.app.audit import audit_command
from kforecast.bench.tasks.builtin import builtin_kernel, builtin_task
from kforecast.store import programs
from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.store.models import Measurement, ProgramRun
from kforecast.tools.audit import audit
from kforecast.tools.checked import checked, not_defended
from kforecast.tools.measure import measure

ROOT = Path(__file__).parents[2]
SOFTMAX = ROOT / "examples" / "softmax.c"
LIBRARY = ROOT / "bench" / "tasks" / "builtin" / "gemm_f32" / "library.c"
TASK = builtin_task("vector_add")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(audit_command, [str(argument) for argument in arguments], standalone_mode=False)


def measurement(**fields: object) -> Measurement:
    given = {
        "id": "m_1", "kernel_id": "k_1", "task_id": TASK.id, "task_name": TASK.name, "device": "cpu", "device_id": "d",
        "lane": "host-code", "launch_mode": "process", "effort": "quick", "verdict": "ok", "reason": "",
        "created_at": "2026-01-01T00:00:00Z", "isolation": "namespaces user+pid+ipc, Landlock 7, seccomp",
    }  # fmt: skip
    return Measurement.model_validate({**given, **fields})


def test_a_kernel_with_nothing_to_note() -> None:
    found = audit(str(SOFTMAX))
    assert (found.summary, found.findings, found.labels) == ("Nothing to note.", (), ())
    assert found.precision == "products f32, sums f32"
    assert found.kernel_id is not None


def test_a_kernel_whose_grid_needs_a_device_is_compiled_all_the_same() -> None:
    path = builtin_kernel("histogram", "cuda", "tuned")
    assert path is not None
    assert audit(str(path)).notes == ()


def test_findings_of_one_kind_are_told_once_with_all_their_lines() -> None:
    found = audit(str(LIBRARY), compile_it=False)
    calls = next(one for one in found.findings if one.label == "library")
    assert len(calls.lines) > 1 and calls.policy
    assert found.labels == ("library", "stateful")
    assert any("not compiled" in note for note in found.notes)


def test_a_module_without_a_header_is_looked_at_as_text(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("def forward(a, b):\n    return torch.matmul(a.half(), b)\n")
    bare, against = audit(str(path)), audit(str(path), task="gemm_f32")
    assert bare.labels == ("library",)
    assert any("--task" in note for note in bare.notes)
    assert against.labels == ("library", "low-precision")
    assert (bare.task, against.task, bare.kernel_id) == (None, "gemm_f32", None)


def test_what_does_not_compile_is_still_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "broken.c"
    path.write_text(SOFTMAX.read_text() + "static int calls;\nnot_a_type wrong;\n")
    found = audit(str(path))
    assert found.labels == ("stateful",)
    assert any("does not compile" in note for note in found.notes)


def test_a_measurement_says_what_was_checked_and_what_was_not_defended() -> None:
    with Store.open() as store:
        result = measure(str(SOFTMAX), effort="quick", baseline="none", use_broker=False, store=store)
        assert result.measurement_id is not None
        found = audit(result.measurement_id, store=store)
        same = audit(result.kernel_id or "", store=store)
    assert (found.verdict, found.measurement_id) == ("ok", result.measurement_id)
    assert found.isolation == result.isolation
    assert any("float64" in line for line in found.checked)
    assert found.not_defended
    assert same.findings == found.findings and same.checked == ()
    page = run(result.measurement_id)
    assert page.return_value == 0
    assert "not defended" in page.output
    assert all(len(line) <= 80 for line in page.output.splitlines())


def test_a_run_of_a_program_was_not_checked() -> None:
    fields = {
        "id": "x_1", "name": "p.cu", "source": "int main() { cudaStreamCreate(&s); }", "source_id": "s_1",
        "device": "cuda:0", "device_id": "GPU", "outcome": "ran", "reason": "", "exit_code": 0, "kernel_us": 1.0,
        "wall_s": 0.1, "created_at": "2026-01-01T00:00:00Z", "isolation": "process",
    }  # fmt: skip
    with Store.open() as store:
        programs.save(store, ProgramRun.model_validate(fields))
        found = audit("x_1", store=store)
    assert "ended with ran" in found.summary
    assert found.checked == ("nothing: nobody said what it should compute",)
    assert [one.label for one in found.findings] == ["streams"]


def test_what_was_not_run_was_not_checked() -> None:
    (only,) = checked(measurement(verdict="compile_error"), TASK)
    assert "nothing was run" in only
    assert "begun, not finished" in checked(measurement(verdict="crashed"), TASK)[0]


def test_the_words_are_those_of_the_lane() -> None:
    gpu = measurement(device="cuda:0", lane="device-only", labels=("stateful",), isolation="device-only")
    assert any("set back before every timed sample" in line for line in checked(gpu, TASK))
    assert any("address space" in line for line in not_defended(gpu))
    assert not any("address space" in line for line in not_defended(measurement()))
    assert any("your files" in line for line in not_defended(measurement(isolation="process")))


def test_exit_codes_and_json() -> None:
    assert run(LIBRARY, "--no-compile").return_value == 0
    told = json.loads(run(LIBRARY, "--no-compile", "--json").output)
    assert told["subject"] == str(LIBRARY)
    assert {one["label"] for one in told["findings"]} >= {"library", "run-time-code"}
    with pytest.raises(InputError, match="does not exist"):
        raise run("missing.cu").exception or AssertionError
    several = run(LIBRARY, "missing.cu", "--no-compile", "--json")
    assert several.return_value == InputError.exit_code
    assert [row.get("error") for row in json.loads(several.output)["results"]] == [None, "InputError"]
    with pytest.raises(InputError, match="id"):
        audit("m_00000000000000000000", store=Store.open())
