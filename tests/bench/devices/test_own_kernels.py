"""The kernels of ours that a CUDA lane loads, compiled without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fake_cupy import FakeCupy

from kforecast.bench.devices.cuda import lane
from kforecast.bench.devices.cuda.compiling import OwnKernels
from kforecast.store.errors import DeviceError


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_oracle_s_kernels_compile_under_the_names_it_asks_for(arch: str) -> None:
    cubin = OwnKernels(arch).path("oracle.cu", lane._ORACLE_KERNELS).read_bytes()
    assert all(name.encode() in cubin for name in lane._ORACLE_KERNELS)
    assert set(FakeCupy().kernels) == set(lane._ORACLE_KERNELS)


def test_kernels_that_do_not_compile_are_our_fault() -> None:
    with pytest.raises(DeviceError, match="do not compile"):
        OwnKernels("sm_90").path("oracle.cu", ("copy_many", "no_such_kernel"))


def test_who_asks_while_they_compile_waits_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    compiled = OwnKernels._compile

    def counted(self: OwnKernels, name: str, entries: Sequence[str]) -> Path:
        made.append(name)
        return compiled(self, name, entries)

    monkeypatch.setattr(OwnKernels, "_compile", counted)
    own = OwnKernels("sm_90")
    with ThreadPoolExecutor(3) as pool:
        paths = set(pool.map(lambda _: own.path("oracle.cu", lane._ORACLE_KERNELS), range(3)))
    assert len(paths) == 1
    assert made == ["oracle.cu"]
