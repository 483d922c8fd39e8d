"""What outlives a launch, read out of compiled cubins."""

from __future__ import annotations

import pytest

from kforecast.bench.devices.cuda.variables import device_variables
from kforecast.bench.languages.cuda.compile import compile_cuda
from kforecast.store.models import Kernel, Launch


def variables(before: str, body: str) -> dict[str, bool]:
    source = f'{before}\nextern "C" __global__ void k(float* y, int n) {{ {body} }}\n'
    kernel = Kernel.make(
        language="cuda", name="k.cu", source=source, launches=(Launch(entry="k", args=()),), task_id="t"
    )
    build = compile_cuda(kernel, arch="sm_90")
    assert build.binary is not None, build.log
    return dict(device_variables(build.binary.read_bytes()))


def test_variables_with_and_without_a_first_value_wherever_they_are_declared() -> None:
    found = variables(
        "__device__ float kept[64]; static __device__ int hidden; namespace { __device__ float other = 3.0f; }",
        "static int inside = 5; kept[n] += hidden++; other *= 2; y[inside++] = other;",
    )
    assert found["kept"] is False
    assert found["hidden"] is False
    assert [first for name, first in found.items() if "other" in name] == [True]
    assert [first for name, first in found.items() if "inside" in name] == [True]


def test_shared_and_constant_memory_is_none() -> None:
    assert not variables("__constant__ float c[4];", "__shared__ float s[4]; s[n & 3] = c[n & 3]; y[n] = s[0];")


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(20), b"MZ" * 100])
def test_what_is_no_cubin_is_an_error(content: bytes) -> None:
    with pytest.raises(ValueError, match="ELF"):
        device_variables(content)
