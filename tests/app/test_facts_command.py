from __future__ import annotations

import json
from pathlib import Path

import pytest

from kforecast.app.main import run

Capture = pytest.CaptureFixture[str]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BROKEN = """/* kforecast 1
task = "vector_add"
[[launch]]
entry = "add"
args = ["a", "b", "c", "N"]
*/
void add(const float* a, const float* b, float* c, int N) {
    for (int i = 0; i < N; i++) c[i] = a[i] + d[i];
}
"""


@pytest.mark.parametrize("name", ["softmax.c", "softmax_wrong.c", "row_dot.c"])
def test_the_examples_compile(name: str, capsys: Capture) -> None:
    assert run(["facts", str(EXAMPLES / name)]) == 0
    page = capsys.readouterr().out
    assert "compiles" in page
    assert "gcc" in page or "clang" in page


def test_a_cuda_example_has_registers_and_occupancy_without_a_gpu(capsys: Capture) -> None:
    assert run(["facts", str(EXAMPLES / "bias_gelu.cu"), "--arch", "sm_90", "--set", "BLOCK=512", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (entry,) = answer["entries"]
    assert entry["entry"] == "bias_gelu"
    assert entry["registers"] > 0
    assert 0 < entry["occupancy"] <= 1
    assert answer["instruction_mix"]


def test_a_compile_error_shows_the_users_line(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "broken.c"
    path.write_text(BROKEN)
    assert run(["facts", str(path)]) == 1
    page = capsys.readouterr().out
    assert "compile error" in page
    assert "broken.c:8:" in page


def test_several_files_make_one_table_and_one_bad_one_keeps_nobody(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "broken.c"
    path.write_text(BROKEN)
    missing = str(tmp_path / "missing.c")
    assert run(["facts", str(EXAMPLES / "softmax.c"), str(path), missing]) == 2
    page = capsys.readouterr().out
    assert "softmax.c" in page
    assert "broken.c  compile error" in page
    assert "missing.c  error" in page


def test_a_bare_file_gets_a_header_to_paste(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bare.c"
    path.write_text("void softmax_rows(const float* x, float* y, int R, int C) { y[0] = x[0] + R + C; }\n")
    assert run(["facts", str(path)]) == 2
    told = capsys.readouterr().err
    assert "\n/* kforecast 1\n" in told
    assert 'entry = "softmax_rows"' in told


def test_a_bare_file_with_its_launch_on_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bare.cu"
    path.write_text(
        'extern "C" __global__ void add(const float* a, const float* b, float* c, int N) {\n'
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < N) c[i] = a[i] + b[i];\n}\n"
    )
    launch = ["--task", "vector_add", "--args", "a, b, c, N", "--grid", "cdiv(N, 256)", "--block", "256"]
    assert run(["facts", str(path), *launch]) == 0
    assert "compiles" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--arch", "hopper"], "sm_90"),
        (["--set", "BLOCK"], "NAME=VALUE"),
        (["--set", "BLOCK=3"], "256"),
        (["--option", "--evil"], "not allowed"),
        (["--grid", "R"], "--override"),
    ],
)
def test_bad_options_say_what_is_right(arguments: list[str], words: str, capsys: Capture) -> None:
    assert run(["facts", str(EXAMPLES / "bias_gelu.cu"), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_an_architecture_is_not_for_c(capsys: Capture) -> None:
    assert run(["facts", str(EXAMPLES / "softmax.c"), "--arch", "sm_90"]) == 2
    assert "Leave --arch out" in capsys.readouterr().err
