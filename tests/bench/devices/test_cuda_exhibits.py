"""CUDA kernels that are wrong, that fault, that hang, and the shipped ones: each gets its verdict, and the GPU
recovers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from measured import expectation, measured

from kforecast.bench.devices.cuda.lane import CudaLane
from kforecast.bench.tasks.builtin import builtin_kernel, builtin_names

pytestmark = pytest.mark.gpu

EXHIBITS = Path(__file__).parents[2] / "exhibits" / "cuda"
NAMES = sorted(path.stem for path in EXHIBITS.glob("*.cu"))


@pytest.fixture(scope="module")
def lane(session_home: Path) -> Iterator[CudaLane]:
    os.environ.setdefault("KFORECAST_CACHE_DIR", str(session_home / "cache"))
    opened = CudaLane(0)
    yield opened
    opened.close()


@pytest.mark.parametrize("name", NAMES)
def test_an_exhibit_gets_its_verdict(name: str, lane: CudaLane) -> None:
    path = EXHIBITS / f"{name}.cu"
    result = measured(path, lane, deadline_s=2.0)
    assert result.verdict in expectation(path), (result.verdict, result.reason)
    if result.verdict not in ("ok", "incorrect"):
        assert result.reason
    if result.verdict == "incorrect":
        assert result.mismatch is not None or "outside" in result.reason or "is an input" in result.reason


@pytest.mark.parametrize("task", builtin_names())
@pytest.mark.parametrize("role", ["seed", "tuned"])
def test_every_shipped_kernel_is_right(task: str, role: str, lane: CudaLane) -> None:
    path = builtin_kernel(task, "cuda", role)  # type: ignore[arg-type]
    assert path is not None
    result = measured(path, lane, deadline_s=5.0)
    assert result.verdict == "ok", result.reason
    assert result.time_us is not None
    assert result.time_us > 0


def test_after_a_fault_the_next_kernel_is_measured_as_before(lane: CudaLane) -> None:
    good = builtin_kernel("vector_add", "cuda", "tuned")
    assert good is not None
    before = measured(good, lane)
    assert measured(EXHIBITS / "illegal_access.cu", lane).verdict == "crashed"
    assert measured(EXHIBITS / "endless.cu", lane, deadline_s=1.0).verdict == "timeout"
    after = measured(good, lane)
    assert before.time_us is not None and after.time_us is not None
    assert after.time_us == pytest.approx(before.time_us, rel=0.1)
