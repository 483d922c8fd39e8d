"""Triton kernels on a GPU, as a user measures them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kforecast

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[4]
EXHIBITS = ROOT / "tests" / "exhibits" / "triton"
GOOD = [*sorted(EXHIBITS.glob("*.py")), ROOT / "examples" / "softmax_triton.py"]
BAD = [path for path in sorted((EXHIBITS / "bad").glob("*.py")) if path.stem not in ("endless_import", "bare")]


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_triton_kernel_is_measured_against_the_cuda_seed(path: Path) -> None:
    result = kforecast.measure(str(path), device="cuda:0", effort="quick")
    assert result.verdict == "ok", (result.verdict, result.reason, result.diagnostics)
    assert result.lane == "device-only"
    assert result.time_us is not None and result.time_us > 0
    assert result.speedup is not None
    assert result.percent_of_floor is None or result.percent_of_floor < 110


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_broken_one_gets_its_verdict(path: Path) -> None:
    expected = re.search(r"^# expect: ([\w|]+):", path.read_text(), re.MULTILINE)
    assert expected is not None
    result = kforecast.measure(str(path), baseline="none", device="cuda:0", effort="quick", timeout_s=1.0)
    assert result.verdict in expected[1].split("|"), (result.verdict, result.reason)


def test_a_cuda_kernel_may_have_a_triton_baseline() -> None:
    seed = ROOT / "bench" / "tasks" / "builtin" / "vector_add" / "tuned.cu"
    result = kforecast.measure(str(seed), baseline=str(EXHIBITS / "vector_add.py"), device="cuda:0", effort="quick")
    assert result.verdict == "ok"
    assert result.speedup is not None and 0.5 < result.speedup < 2.0


def test_clusters_are_launched_where_the_ptx_fixes_them(tmp_path: Path) -> None:
    path = tmp_path / "clustered.py"
    text = (EXHIBITS / "vector_add.py").read_text()
    path.write_text(text.replace("num_warps = [4, 8]", "num_warps = [4]\n# num_ctas = [2]"))
    result = kforecast.measure(str(path), baseline="none", device="cuda:0", effort="quick")
    # Not every Triton can plan such a kernel; none may be launched as what it is not.
    assert result.verdict in ("ok", "compile_error"), (result.verdict, result.reason)
