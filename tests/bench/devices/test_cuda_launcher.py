"""In which order the launcher queues its work, on a stand-in for the driver that writes down every call. No GPU."""

from __future__ import annotations

import ctypes
import importlib
import socket
import sys
import threading
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kforecast.bench.devices.cuda.channel import Channel
from kforecast.bench.languages.cuda.compile import compile_cuda
from kforecast.store.models import Kernel, Launch

MODULE = "kforecast.bench.devices.cuda.launcher"
SOURCE = """
__device__ int calls;
__device__ float first[4] = {1, 2, 3, 4};
extern "C" __global__ void k(float* y) { calls++; first[threadIdx.x] += 1; y[0] = first[0] + calls; }
"""
LAUNCH = {"symbol": "k", "grid": [1, 1, 1], "block": [4, 1, 1], "smem": 0, "args": [("o", 0)]}


class Result(Enum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_NOT_SUPPORTED = 801


class Driver(ModuleType):
    """`cuda.bindings.driver`: every call succeeds with a number of its own, and is written down."""

    CUresult = Result

    def __init__(self) -> None:
        super().__init__("cuda.bindings.driver")
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.missing: set[bytes] = set()
        self.refused_launch: int | None = None
        """The number of the launch that the driver refuses."""
        self.faulting_launch: int | None = None
        """The number of the launch after which nothing in the stream comes to its end."""
        self.writes_words = True
        self._host = ctypes.create_string_buffer(64)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):  # enumerations
            return SimpleNamespace(__getattr__=None) if name.startswith("__") else _Any()

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, arguments))
            launches = self.names().count("cuLaunchKernel")
            faulted = self.faulting_launch is not None and launches > self.faulting_launch
            if name == "cuMemHostAlloc":
                return Result.CUDA_SUCCESS, ctypes.addressof(self._host)
            if name == "cuStreamWriteValue32" and self.writes_words and not faulted:
                ctypes.c_uint32.from_address(ctypes.addressof(self._host)).value = arguments[2]
            failures = {
                "cuStreamWriteValue32": Result.CUDA_ERROR_NOT_SUPPORTED if not self.writes_words else None,
                "cuStreamSynchronize": Result.CUDA_ERROR_ILLEGAL_ADDRESS if faulted else None,
                "cuLaunchKernel": Result.CUDA_ERROR_INVALID_VALUE if launches - 1 == self.refused_launch else None,
            }
            if failures.get(name) is not None:
                return (failures[name],)
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
    program = {"launches": [LAUNCH], "zero": []}
    module = {"cubin": str(cubin), "stateful": stateful, "programs": [program]}
    first, second = launcher.load({"modules": [module, {**module, "programs": [program, program]}]})["loaded"]
    assert (first["module"], first["programs"]) == (0, [0])
    assert (second["module"], second["programs"]) == (1, [1, 2])
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
    (loaded,) = launcher.load({"modules": [{"cubin": str(cubin), "stateful": True, "programs": []}]})["loaded"]
    assert loaded["unreachable"] == ["calls"]
    (loaded,) = launcher.load({"modules": [{"cubin": str(cubin), "stateful": False, "programs": []}]})["loaded"]
    assert loaded["unreachable"] == []
    launcher.unload({})
    assert driver.names().count("cuMemFree") == 1  # the first value of the other one
    assert driver.names().count("cuModuleUnload") == 2


def ran(driver: Driver, cubin: Path, calls: int) -> dict[str, Any]:
    """What the launcher answers to a message that runs a kernel so many times."""
    module = importlib.import_module(MODULE)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours)
        thread = threading.Thread(target=module.serve, args=(Channel(theirs), 0), daemon=True)
        thread.start()
        assert "ready" in channel.receive(10.0)
        program = {"launches": [LAUNCH], "zero": []}
        channel.send({"verb": "load", "modules": [{"cubin": str(cubin), "stateful": False, "programs": [program]}]})
        assert channel.receive(10.0)["loaded"][0]["programs"] == [0]
        del driver.calls[:]
        channel.send({"verb": "run", "calls": [[0, 0, 256 * number] for number in range(calls)]})
        answer = channel.receive(10.0)
        ours.shutdown(socket.SHUT_WR)
        thread.join(10.0)
        assert not thread.is_alive()
    return answer


def test_the_calls_of_a_run_are_queued_one_after_another_and_waited_for_once(driver: Driver, cubin: Path) -> None:
    assert ran(driver, cubin, 4) == {}
    names = [name for name in driver.names() if name in ("cuLaunchKernel", "cuStreamSynchronize")]
    assert names == ["cuLaunchKernel"] * 4 + ["cuStreamSynchronize"]


@pytest.mark.parametrize("number", [0, 2])
def test_a_fault_is_told_of_the_call_that_did_not_end(number: int, driver: Driver, cubin: Path) -> None:
    driver.faulting_launch = number
    answer = ran(driver, cubin, 4)
    assert (answer["fault"], answer["call"]) == ("CUDA_ERROR_ILLEGAL_ADDRESS", number)


def test_a_refusal_is_told_of_the_call_that_was_refused_once_nothing_runs_any_more(driver: Driver, cubin: Path) -> None:
    driver.refused_launch = 2
    answer = ran(driver, cubin, 4)
    assert (answer["refused"], answer["call"]) == ("CUDA_ERROR_INVALID_VALUE", 2)
    assert driver.names()[-1] == "cuStreamSynchronize"


def test_a_fault_before_the_refused_call_is_the_greater(driver: Driver, cubin: Path) -> None:
    driver.faulting_launch, driver.refused_launch = 1, 2
    answer = ran(driver, cubin, 4)
    assert (answer["fault"], answer["call"]) == ("CUDA_ERROR_ILLEGAL_ADDRESS", 1)


@pytest.mark.parametrize("faulting", [None, 1])
def test_where_the_device_cannot_write_how_far_it_came_each_call_is_waited_for(
    faulting: int | None, driver: Driver, cubin: Path
) -> None:
    driver.writes_words = False
    module = importlib.import_module(MODULE)
    launcher = module.Launcher(0)
    launcher._progress.probe(launcher.stream)
    program = {"launches": [LAUNCH], "zero": []}
    launcher.load({"modules": [{"cubin": str(cubin), "stateful": False, "programs": [program]}]})
    del driver.calls[:]
    driver.faulting_launch = faulting
    message = {"calls": [[0, 0, 0]] * 3}
    if faulting is None:
        assert launcher.run(message) == {}
        assert driver.names().count("cuStreamSynchronize") >= 3
    else:
        with pytest.raises(module.CudaFailure) as caught:
            launcher.run(message)
        assert launcher.settled(caught.value)[1] == faulting
