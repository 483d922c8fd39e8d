"""The kernels of ours that a CUDA lane loads, compiled without a GPU."""

from __future__ import annotations

import pytest
from fake_cupy import FakeCupy

from kforecast.bench.devices.cuda import lane
from kforecast.bench.devices.cuda.compiling import own_kernels
from kforecast.store.errors import DeviceError


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_oracle_s_kernels_compile_under_the_names_it_asks_for(arch: str) -> None:
    cubin = own_kernels("oracle.cu", lane._ORACLE_KERNELS, arch).read_bytes()
    assert all(name.encode() in cubin for name in lane._ORACLE_KERNELS)
    assert set(FakeCupy().kernels) == set(lane._ORACLE_KERNELS)


def test_kernels_that_do_not_compile_are_our_fault() -> None:
    with pytest.raises(DeviceError, match="do not compile"):
        own_kernels("oracle.cu", ("copy_many", "no_such_kernel"), "sm_90")
