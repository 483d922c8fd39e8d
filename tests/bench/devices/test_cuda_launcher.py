"""In which order the launcher queues its work, on a stand-in for the driver that writes down every call. No GPU."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kforecast.bench.languages.cuda.compile import compile_cuda
from kforecast.store.models import Kernel, Launch

MODULE = "kforecast.bench.devices.cuda.launcher"
SOURCE = """
__device__ int calls;
__device__ float first[4] = {1, 2, 3, 4};
extern "C" __global__ void k(float* y) { calls++; first[threadIdx.x] += 1; y[0] = first[0] + calls; }
"""


class Result(Enum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_NOT_FOUND = 500


class Driver(ModuleType):
    """`cuda.bindings.driver`: every call succeeds with a number of its own, and is written down."""

    CUresult = Result

    def __init__(self) -> None:
        super().__init__("cuda.bindings.driver")
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.missing: set[bytes] = set()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):  # enumerations
            return SimpleNamespace(__getattr__=None) if name.startswith("__") else _Any()

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, arguments))
            if name == "cuModuleGetGlobal":
                found = arguments[1] not in self.missing
                return (
                    (Result.CUDA_SUCCESS, 1000 + len(self.calls), 16) if found else (Result.CUDA_ERROR_NOT_FOUND, 0, 0)
                )
            if name == "cuEventElapsedTime":
                return Result.CUDA_SUCCESS, 0.004
            return Result.CUDA_SUCCESS, len(self.calls)

        return call

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


class _Any:
    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(value=0)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    driver = Driver()
    bindings = ModuleType("cuda.bindings")
    bindings.driver = driver  # type: ignore[attr-defined]
    for name, module in (("cuda", ModuleType("cuda")), ("cuda.bindings", bindings), ("cuda.bindings.driver", driver)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield driver
    sys.modules.pop(MODULE, None)


@pytest.fixture(scope="module")
def cubin() -> Path:
    kernel = Kernel.make(
        language="cuda", name="k.cu", source=SOURCE, launches=(Launch(entry="k", args=()),), task_id="t"
    )
    binary = compile_cuda(kernel, arch="sm_90").binary
    assert binary is not None
    return binary


def timed(driver: Driver, cubin: Path, slots: int, *, stateful: bool, renew: bool = True) -> list[str]:
    """The driver's calls that one timed sample of so many launches makes."""
    launcher = importlib.import_module(MODULE).Launcher(0)
    launcher._flush = SimpleNamespace(launch=lambda *rest: driver.calls.append(("flush", ())))
    launcher.load({"cubin": str(cubin), "stateful": stateful})
    launch = {"symbol": "k", "grid": [1, 1, 1], "block": [4, 1, 1], "smem": 0, "args": [("o", 0)]}
    launcher.programs({"programs": [{"module": 0, "launches": [launch], "zero": []}]})
    del driver.calls[:]
    cold = [[0, 256 * number] for number in range(slots)]
    answer = launcher.time({"samples": [{"program": 0, "cold": cold, "warm": [], "renew": renew}]})
    assert answer["times"] == [[pytest.approx(4.0 / slots)]]
    return driver.names()


def test_device_variables_are_set_back_before_the_flush_and_nothing_comes_between_the_events(
    driver: Driver, cubin: Path
) -> None:
    names = timed(driver, cubin, 1, stateful=True)
    back = [names.index("cuMemsetD8Async"), names.index("cuMemcpyDtoDAsync")]
    flush, launch = names.index("flush"), names.index("cuLaunchKernel")
    assert max(back) < flush < launch
    events = [place for place, name in enumerate(names) if name == "cuEventRecord"]
    assert names[events[0] + 1 : events[1]] == ["cuLaunchKernel"]
    assert names.index("cuCtxResetPersistingL2Cache") < flush


@pytest.mark.parametrize(("stateful", "renew"), [(False, True), (True, False)])
def test_a_kernel_without_any_and_a_sample_that_asks_for_none_pay_nothing(
    stateful: bool, renew: bool, driver: Driver, cubin: Path
) -> None:
    names = timed(driver, cubin, 1, stateful=stateful, renew=renew)
    assert not {"cuMemsetD8Async", "cuMemcpyDtoDAsync"} & set(names)


def test_several_launches_share_the_events_as_one_graph(driver: Driver, cubin: Path) -> None:
    names = timed(driver, cubin, 5, stateful=False)
    assert names.count("cuLaunchKernel") == 5
    assert names.index("cuStreamEndCapture") < names.index("flush") < names.index("cuGraphLaunch")
    assert names.count("cuEventRecord") == 2


def test_variables_that_the_driver_does_not_name_are_told(driver: Driver, cubin: Path) -> None:
    driver.missing = {b"calls"}
    launcher = importlib.import_module(MODULE).Launcher(0)
    assert launcher.load({"cubin": str(cubin), "stateful": True}) == {"module": 0, "unreachable": ["calls"]}
    assert launcher.load({"cubin": str(cubin), "stateful": False})["unreachable"] == []
    launcher.unload({})
    assert driver.names().count("cuMemFree") == 1  # the first value of the other one
    assert driver.names().count("cuModuleUnload") == 2
