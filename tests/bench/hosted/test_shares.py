"""Whose kernels a program's time on the GPU goes to, with a stand-in for PyTorch's profiler."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.hosted.shares import seen_in, watched_kernel
from kforecast.bench.hosted.watching import MARK
from kforecast.store.models import Kernel, Launch

torch = pytest.importorskip("torch")

SOURCE = '''from __future__ import annotations
import torch

CUDA = """__global__ void my_softmax(float* x) {}"""


class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super(ModelNew, self).__init__()
        self.scale = scale

    def forward(self, x):
        return x * self.scale


def custom_kernel(data):
    return data + 1
'''
ATEN = "void at::native::vectorized_elementwise_kernel<4, my_softmax>(int, float*)"


def kernel(entry: str, source: str = SOURCE) -> Kernel:
    return Kernel.make(
        language="torch", name="mine.py", source=source, launches=(Launch(entry=entry, args=()),), task_id="t_0"
    )


@pytest.fixture
def profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def event(name: str, us: float, kind: Any) -> SimpleNamespace:
        return SimpleNamespace(name=name, device_type=kind, time_range=SimpleNamespace(elapsed_us=lambda: us))

    @contextlib.contextmanager
    def profile(activities: list[Any]) -> Iterator[SimpleNamespace]:
        assert activities == [torch.profiler.ProfilerActivity.CUDA]
        kinds = torch.autograd.DeviceType
        events = [event("void my_softmax(float*)", 30.0, kinds.CUDA), event("aten::add", 99.0, kinds.CPU)]
        yield SimpleNamespace(events=lambda: [*events, event(ATEN, 5.0, kinds.CUDA), event(ATEN, 5.0, kinds.CUDA)])

    monkeypatch.setattr(torch.profiler, "profile", profile)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


@pytest.mark.usefixtures("profiler")
@pytest.mark.parametrize("entry", ["ModelNew", "custom_kernel"])
def test_a_watched_program_computes_the_same_and_tells_its_kernels(
    entry: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = kernel(entry)
    watched = watched_kernel(mine)
    space: dict[str, Any] = {"__name__": "submission"}
    exec(compile(watched.source, "mine.py", "exec"), space)
    found = space[watched.launches[0].entry]
    function = found(2.0) if isinstance(found, type) else found
    assert function(torch.ones(3)).tolist() == [2.0] * 3
    seen = seen_in(capsys.readouterr().out, mine)
    assert seen.labels == ()
    assert seen.notes == (
        "GPU time of one call: 75% in kernels that its own text defines (void my_softmax(float*) 75%); "
        f"25% in others ({ATEN[:60]} 25%)",
    )


def test_kernels_that_are_defined_and_never_run_are_a_fallback() -> None:
    printed = MARK + json.dumps({ATEN: 3.0, "sm90_xmma_gemm": 1.0})
    seen = seen_in(f"its own words\n{printed}\n", kernel("custom_kernel"))
    assert seen.labels == ("fallback",)
    assert seen.notes[0].startswith("GPU time of one call: 0% in kernels that its own text defines; 100% in others")
    plain = kernel("f", "import torch\ndef f(x): return x.softmax(-1)\n")
    assert seen_in(printed, plain).labels == ()


@pytest.mark.parametrize(
    ("name", "own"),
    [("my_softmax", True), ("void mine::my_softmax<4>(int)", True), ("Memcpy DtoD (Device -> Device)", False)],
)
def test_a_kernel_is_known_by_its_bare_name(name: str, own: bool) -> None:
    (note,) = seen_in(MARK + json.dumps({name: 1.0}), kernel("custom_kernel")).notes
    assert ("100% in kernels that its own text defines" in note) == own


@given(st.text(max_size=80))
def test_whatever_the_program_prints_is_no_fault_of_ours(text: str) -> None:
    for printed in (text, MARK + text, f'{MARK}{{"a": {text}}}'):
        seen_in(printed, kernel("custom_kernel"))
    assert seen_in("", kernel("custom_kernel")).notes == ("GPU time: no kernel was seen",)
