"""`kforecast measure` end to end: real kernels, a real compiler, a real store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from kforecast.app.main import run
from kforecast.store.errors import DeviceError

Capture = pytest.CaptureFixture[str]

HEADER = """/* kforecast 1
[task]
name = "double"
in.x = { dtype = "f32", shape = ["N"], fill = "normal" }
out.y = { dtype = "f32", shape = ["N"] }
reference = "double.py:reference"
checked = [{ N = 1 }, { N = 37 }]
timed = [{ N = 4096 }]
[[launch]]
entry = "twice"
args = ["x", "y", "N"]
*/
"""
REFERENCE = "def reference(xp, inputs, sizes):\n    return {'y': inputs['x'] * 2}\n"
RIGHT = "void twice(const float* x, float* y, int N) { for (int i = 0; i < N; i++) y[i] = 2 * x[i]; }\n"
BODIES = {
    "right": RIGHT,
    "slow": """void twice(const float* x, float* y, int N) {
        for (int k = 0; k < 4000; k++) for (volatile int i = 0; i < N; i++) y[i] = 2 * x[i]; }\n""",
    "wrong": "void twice(const float* x, float* y, int N) { for (int i = 0; i < N - 1; i++) y[i] = 2 * x[i]; }\n",
    "broken": "void twice(const float* x, float* y, int N) {\n    y[0] = z;\n}\n",
    "hangs": "void twice(const float* x, float* y, int N) { for (volatile int i = 0;;) y[0] = 2 * x[i]; }\n",
    "wild": "void twice(const float* x, float* y, int N) { for (int i = 0; i < N + 65536; i++) y[i] = 2 * x[0]; }\n",
}


@pytest.fixture
def kernels(tmp_path: Path) -> dict[str, str]:
    """Paths of small kernels by what is the matter with them."""
    (tmp_path / "double.py").write_text(REFERENCE)
    for name, body in BODIES.items():
        (tmp_path / f"{name}.c").write_text(HEADER + body)
    return {name: str(tmp_path / f"{name}.c") for name in BODIES}


def measure(*arguments: str) -> int:
    return run(["measure", *arguments, "--effort", "quick", "--no-broker"])


def answer(capsys: Capture) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_right_kernel_against_a_slower_one(kernels: dict[str, str], capsys: Capture) -> None:
    assert measure(kernels["right"], "--baseline", kernels["slow"], "--json") == 0
    result = answer(capsys)
    assert (result["verdict"], result["comparison"], result["state"]) == ("ok", "faster", "completed")
    assert result["speedup"] > 1
    assert result["speedup_low"] > 1
    assert result["time_us"] > 0
    assert result["mismatch"] is None
    assert result["kernel_id"].startswith("k_")
    assert [case["case"] for case in result["cases"]] == ["N=4096"]


def test_the_answer_is_kept_and_shown_again(kernels: dict[str, str], capsys: Capture) -> None:
    assert measure(kernels["right"]) == 0
    page = click.unstyle(capsys.readouterr().out)
    assert "nothing to compare it" in " ".join(page.split())
    assert run(["status", "--json"]) == 0
    (row,) = answer(capsys)["measurements"]
    assert run(["status", row["measurement_id"]]) == 0
    assert row["measurement_id"] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "verdict", "words"),
    [
        ("wrong", "incorrect", "y["),
        ("broken", "compile_error", "broken.c:14"),
        ("hangs", "timeout", "deadline"),
        ("wild", "crashed", "past the end of y"),
    ],
)
def test_each_kind_of_bad_kernel_gets_its_verdict(
    name: str, verdict: str, words: str, kernels: dict[str, str], capsys: Capture
) -> None:
    assert measure(kernels[name], "--timeout", "1") == 1
    page = click.unstyle(capsys.readouterr().out)
    assert verdict in page
    assert words in page


def test_several_files_are_ranked_and_nobody_is_lost(kernels: dict[str, str], capsys: Capture) -> None:
    files = [kernels["slow"], kernels["wrong"], kernels["right"], "missing.c"]
    assert measure(*files, "--baseline", kernels["slow"], "--json") == 2
    results = answer(capsys)["results"]
    assert [Path(row["file"]).name for row in results] == ["right.c", "slow.c", "wrong.c", "missing.c"]
    assert results[0]["rank"] == 1
    assert [row["rank"] for row in results[2:]] == [None, None]
    assert results[2]["verdict"] == "incorrect"
    assert results[3]["error"] == "InputError"


def test_the_task_may_be_that_of_another_kernel_file(kernels: dict[str, str], tmp_path: Path, capsys: Capture) -> None:
    own = tmp_path / "own.c"
    own.write_text("/* kforecast 1\n" + HEADER[HEADER.index("[[launch]]") :] + RIGHT)
    assert measure(str(own), "--task", kernels["slow"], "--baseline", kernels["slow"], "--json") == 0
    assert answer(capsys)["task"] == "double"
    (tmp_path / "bare.c").write_text(RIGHT)
    assert measure(str(own), "--task", str(tmp_path / "bare.c")) == 2
    assert "header" in capsys.readouterr().err


def test_several_files_as_a_page(kernels: dict[str, str], capsys: Capture) -> None:
    assert measure(kernels["right"], kernels["wrong"], "--baseline", kernels["slow"]) == 1
    page = click.unstyle(capsys.readouterr().out)
    assert "rank" in page
    assert "without a rank" in page


def test_a_kernel_that_no_device_is_there_for_takes_no_other_ones_answer(
    kernels: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def none(ordinal: int) -> None:
        raise DeviceError("there is no CUDA driver here", value=f"cuda:{ordinal}", next_step="Find one.")

    monkeypatch.setattr("kforecast.bench.devices.cuda.lane.device_facts", none)
    other = tmp_path / "other.cu"
    header = HEADER.replace("*/", 'grid = ["N"]\nblock = [1]\n*/')
    other.write_text(header + 'extern "C" __global__ void twice(const float* x, float* y, int N) {}\n')
    command = ["measure", str(other), "--effort", "quick", "--no-broker", "--json"]
    assert run([*command, kernels["right"]]) == 4
    first, second = json.loads(capsys.readouterr().out)["results"]
    assert (first["file"], first["verdict"]) == (kernels["right"], "ok")
    assert (second["error"], second["exit_code"]) == ("DeviceError", 4)
    assert run([*command, str(other)]) == 4
    assert json.loads(capsys.readouterr().out)["error"] == "DeviceError"


def test_a_baseline_that_is_wrong_is_bad_input(kernels: dict[str, str], capsys: Capture) -> None:
    assert measure(kernels["right"], "--baseline", kernels["wrong"]) == 2
    assert "baseline" in capsys.readouterr().err


def test_a_bare_file_is_measured_with_its_launch_on_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bare.c"
    path.write_text(
        "void add(const float* a, const float* b, float* c, int N) {\n"
        "    for (int i = 0; i < N; i++) c[i] = a[i] + b[i];\n}\n"
    )
    launch = ["--task", "vector_add", "--entry", "add", "--args", "a, b, c, N"]
    assert measure(str(path), *launch, "--baseline", "none", "--json") == 0
    assert answer(capsys)["task"] == "vector_add"


def test_a_bare_file_without_its_launch_gets_a_header_to_paste(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bare.c"
    path.write_text(RIGHT)
    assert measure(str(path)) == 2
    assert "\n/* kforecast 1\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"\x00\x01\x02\xff", "text"),
        (b'/* kforecast 1\ntask = "double"\nlunch = 1\n*/\n', "launch"),
        (
            b'/* kforecast 1\ntask = "sofmax_rows"\n[[launch]]\nentry = "f"\nargs = []\n*/\nvoid f(void) {}\n',
            "softmax_rows",
        ),
    ],
)
def test_bad_files_are_explained(text: bytes, words: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.c"
    path.write_bytes(text)
    assert measure(str(path)) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["missing.c"], 2), (["/"], 2), (["a.c", "--effort", "max"], 2), (["a.c", "--timeout", "0"], 2)],
)
def test_bad_arguments_are_bad_input(arguments: list[str], code: int, capsys: Capture) -> None:
    assert run(["measure", *arguments]) == code
    assert capsys.readouterr().err.startswith("error: ")


def test_a_device_that_does_not_fit_is_unsupported(kernels: dict[str, str], capsys: Capture) -> None:
    assert measure(kernels["right"], "--device", "cuda:0") == 5
    assert "cuda:0" in capsys.readouterr().err


def test_the_configuration_chooses_the_device(
    kernels: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("KFORECAST_DEVICE", "cuda:0")
    assert measure(kernels["right"]) == 5
    assert measure(kernels["right"], "--device", "cpu") == 0
