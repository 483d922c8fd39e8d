"""A reference's module is made once a seed and copied: every run sees it as it was made."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from kforecast.bench.hosted.problems import KernelBenchDefinition  # noqa: E402
from kforecast.bench.tasks.peers import peer_task  # noqa: E402
from kforecast.store.models import Case  # noqa: E402

CASE = Case(sizes={})
PROBLEM = """
import torch
from torch import nn

made = []


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        made.append(width)
        self.layer = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.calls = 0
        {extra}

    def forward(self, x):
        self.calls += 1
        return self.norm(self.layer(x)) * self.calls + torch.rand(1)


def get_inputs():
    return [torch.rand(8, 16)]


def get_init_inputs():
    return [16]
"""


def definition(folder: Path, extra: str) -> KernelBenchDefinition:
    path = folder / "problem.py"
    path.write_text(PROBLEM.format(extra=extra))
    task = peer_task(path)
    assert task is not None
    return KernelBenchDefinition(task, "cpu")


@pytest.mark.parametrize(("extra", "times"), [("pass", 1), ("self.generator = (n for n in range(3))", 5)])
def test_every_run_is_the_first(tmp_path: Path, extra: str, times: int) -> None:
    """Running statistics, counters, parameters and drawn numbers of one run do not reach the next; a module that cannot
    be copied is made anew.
    """
    problem = definition(tmp_path, extra)
    inputs = problem.inputs(CASE, 3)
    first = problem.run(inputs, [16], 7)
    problem.run(inputs, [16], 7, bits=4)
    problem.run(inputs, [16], 7, wide=True)
    assert torch.equal(first, problem.run(inputs, [16], 7))
    assert len(problem._space["made"]) == times
    assert not torch.equal(first, problem.run(inputs, [16], 8))


def test_released_it_is_made_again_and_the_same(tmp_path: Path) -> None:
    problem = definition(tmp_path, "pass")
    inputs = problem.inputs(CASE, 3)
    first = problem.run(inputs, [16], 7)
    problem.release()
    assert torch.equal(first, problem.run(inputs, [16], 7))
    assert len(problem._space["made"]) == 2


@pytest.mark.parametrize(("body", "ends_on"), [("torch.rand(8, 16)", "meta"), ("torch.rand(8, 16).numpy()", "cpu")])
def test_inputs_are_drawn_on_the_device_unless_the_file_cannot(tmp_path: Path, body: str, ends_on: str) -> None:
    path = tmp_path / "problem.py"
    path.write_text(PROBLEM.replace("[torch.rand(8, 16)]", f"[{body}]").format(extra="pass"))
    task = peer_task(path)
    assert task is not None
    problem = KernelBenchDefinition(task, "meta")
    problem.inputs(CASE, 3)
    assert problem._draws_on == ends_on
