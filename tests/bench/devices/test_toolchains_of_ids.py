"""The toolchain in a kernel's id is the one that compiles it, on a GPU's lanes as on the cpu's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kforecast.bench.devices.cuda.compiling import compile_for
from kforecast.bench.devices.cuda.device import DeviceFacts
from kforecast.bench.header.signature import signatures
from kforecast.bench.hosted.lane import HostedLane
from kforecast.bench.tasks.builtin import builtin_kernel
from kforecast.store.errors import DeviceError
from kforecast.store.models import Kernel
from kforecast.tools.kernels import Asked, Named, load_file

GPU = DeviceFacts("NVIDIA H200", "GPU-0", "sm_90", 132, 232448, 60 << 20, 150 << 30, 1980.0, False)
EXAMPLE = Path(__file__).parents[3] / "examples" / "softmax_triton.py"


def measured_elsewhere(named: Named, toolchain: str) -> Kernel:
    """The kernel as it is stored where another version compiled it."""
    kernel = named.kernel
    fields = kernel.model_dump(exclude={"id", "source_id", "toolchain"})
    return Kernel.make(**fields | {"launches": kernel.launches, "scratch": kernel.scratch}, toolchain=toolchain)


@pytest.mark.parametrize("other", ["nvrtc 99.1.0", "triton 99.1.0"])
def test_device_code_is_compiled_by_the_toolchain_of_its_id_only(other: str) -> None:
    language = "triton" if other.startswith("triton") else "cuda"
    path = EXAMPLE if language == "triton" else builtin_kernel("softmax_rows", "cuda", "seed")
    assert path is not None
    named = load_file(path, Asked())
    if not named.kernel.toolchain:
        pytest.skip(f"no {language} compiler here")
    found = signatures(named.kernel.source, named.kernel.language, named.kernel.includes)
    built = compile_for(GPU, named.kernel, found, named.task)
    assert built.ok, built.facts.error
    assert built.facts.toolchain == named.kernel.toolchain
    said = f"a compiler that is not here: {other}; here is {named.kernel.toolchain}. Give the kernel's file"
    with pytest.raises(DeviceError, match=re.escape(said)):
        compile_for(GPU, measured_elsewhere(named, other), found, named.task)


def test_a_program_runs_on_the_pytorch_of_its_id_only(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = builtin_kernel("softmax_rows", "torch", "library")
    assert path is not None
    named = load_file(path, Asked())
    lane = HostedLane("cpu", "here", tmp_path)
    assert lane.compile(named.kernel, ()).ok
    with pytest.raises(DeviceError, match=r"torch 1\.0, python 3\.8; here is torch"):
        lane.compile(measured_elsewhere(named, "torch 1.0, python 3.8"), ())
