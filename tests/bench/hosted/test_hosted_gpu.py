"""The host-code lane on a GPU: verdicts, isolation, and that answering early does not pay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from kforecast.bench.devices.catalogue import open_hosted
from kforecast.bench.lane import Lane
from kforecast.bench.languages.torch import peer_kernel, reference_kernel
from kforecast.bench.measuring import Job, measure
from kforecast.bench.tasks.peers import peer_task
from kforecast.store.models import Measurement

pytestmark = pytest.mark.gpu
EXPLOITS = Path(__file__).parents[2] / "exploits"


@pytest.fixture(scope="module")
def gpu() -> Iterator[Lane]:
    torch = pytest.importorskip("torch")
    if torch.version.cuda is None:
        pytest.skip("this PyTorch has no CUDA")
    lane = open_hosted("cuda:0")
    yield lane
    lane.close()


def run(lane: Lane, path: Path, *, against_reference: bool = False) -> Measurement:
    task = peer_task(EXPLOITS / "torch" / "problem.py")
    assert task is not None
    baseline = reference_kernel(task) if against_reference else None
    job = Job(task, peer_kernel(path.read_text(), path.name, task), baseline, "quick", call_deadline_s=10.0)
    return measure(job, lane, device_lock=nullcontext)


def test_a_problem_against_itself(gpu: Lane) -> None:
    result = run(gpu, EXPLOITS / "torch" / "problem.py", against_reference=True)
    assert result.verdict == "ok", (result.reason, result.diagnostics)
    assert result.log2_speedup is not None
    assert result.isolation.startswith("process")


@pytest.mark.parametrize("name", ["streams_where_there_are", "graph_where_there_is", "in_place", "threads"])
def test_honest_programs(gpu: Lane, name: str) -> None:
    result = run(gpu, EXPLOITS / "honest" / "torch" / f"{name}.py")
    assert result.verdict == "ok", (result.reason, result.diagnostics)


@pytest.mark.parametrize("name", ["answers_before_the_device", "stale_output", "mutates_input", "low_precision"])
def test_attacks(gpu: Lane, name: str) -> None:
    assert run(gpu, EXPLOITS / "torch" / f"{name}.py").verdict in ("incorrect", "tampered", "crashed")
