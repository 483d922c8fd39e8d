"""Launches a compiled kernel from Python on torch's current stream: what a candidate's process runs of a CUDA or Triton
kernel.

This file travels to that process as text and imports nothing of this package. Beside it lies `plan.json`: the cubin,
and for each case the launches in numbers. A class without arguments, called with the task's tensors and then its sizes;
it writes the outputs in place. Source: CUDA driver API, "Module Management" and "Execution Control".
"""

from __future__ import annotations

import base64
import ctypes
import json
from pathlib import Path
from typing import Any

PLAN = "plan.json"
_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
"""Of CUfunction_attribute."""


class Driver:
    """The driver's functions that a launch needs. What it refuses is a RuntimeError with the result's name."""

    def __init__(self) -> None:
        self._cuda: Any = ctypes.CDLL("libcuda.so.1")
        self._cuda.cuModuleLoadData.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        self._cuda.cuModuleGetFunction.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
        self._cuda.cuFuncSetAttribute.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
        numbers = (ctypes.c_uint,) * 7
        self._cuda.cuLaunchKernel.argtypes = (ctypes.c_void_p, *numbers, *(ctypes.c_void_p,) * 3)
        self._cuda.cuMemsetD8Async.argtypes = (ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p)
        self.launch_kernel = self._cuda.cuLaunchKernel
        self.memset = self._cuda.cuMemsetD8Async

    def module(self, cubin: bytes) -> ctypes.c_void_p:
        found, image = ctypes.c_void_p(), ctypes.create_string_buffer(cubin, len(cubin))
        self.check(self._cuda.cuModuleLoadData(ctypes.byref(found), image), "the cubin")
        return found

    def function(self, module: ctypes.c_void_p, symbol: str) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        self.check(self._cuda.cuModuleGetFunction(ctypes.byref(found), module, symbol.encode()), f"the symbol {symbol}")
        return found

    def allow_shared_memory(self, function: ctypes.c_void_p, size: int) -> None:
        """Let launches of a function ask for so many bytes of dynamic shared memory."""
        code = self._cuda.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED_SIZE_BYTES, size)
        self.check(code, f"{size} bytes of dynamic shared memory")

    def check(self, code: int, what: str) -> None:
        if code:
            name = ctypes.c_char_p()
            self._cuda.cuGetErrorName(code, ctypes.byref(name))
            raise RuntimeError(f"the driver refuses {what}: {(name.value or b'').decode() or f'CUresult {code}'}")


class _Launch:
    """One launch with the storage of its parameters: addresses change with every call, numbers stay."""

    def __init__(self, function: ctypes.c_void_p, told: dict[str, Any]) -> None:
        self.what = f"launching {told['symbol']}, grid {told['grid']}, block {told['block']}, smem {told['smem']}"
        count = max(len(told["args"]), 1)
        self.values = (ctypes.c_uint64 * count)()
        self.pointers = (ctypes.c_void_p * count)()
        self.places = [(index, place) for index, (kind, place) in enumerate(told["args"]) if kind == "memory"]
        for index, (kind, value) in enumerate(told["args"]):
            self.values[index] = value if kind == "number" else 0
            self.pointers[index] = ctypes.addressof(self.values) + 8 * index
        self.head = (function, *told["grid"], *told["block"], told["smem"])

    def go(self, driver: Driver, addresses: list[int], stream: int) -> None:
        for index, place in self.places:
            self.values[index] = addresses[place]
        code = driver.launch_kernel(*self.head, stream, self.pointers, None)
        if code:
            driver.check(code, self.what)


class _Case:
    """One case: its launches, the bytes of its scratch memory, and what is cleared before each call."""

    def __init__(self, functions: dict[str, ctypes.c_void_p], told: dict[str, Any]) -> None:
        self.launches = [_Launch(functions[launch["symbol"]], launch) for launch in told["launches"]]
        self.scratch: list[int] = told["scratch"]
        self.zero: list[tuple[int, int]] = [(place, size) for place, size in told["zero"]]


class Launcher:
    """The kernel as a function of the task's tensors and sizes."""

    def __init__(self) -> None:
        plan = json.loads(Path(__file__).with_name(PLAN).read_text())
        self._driver = Driver()
        module = self._driver.module(base64.b64decode(plan["cubin"]))
        functions = {}
        for symbol, most in plan["shared"].items():
            functions[symbol] = self._driver.function(module, symbol)
            if most:
                self._driver.allow_shared_memory(functions[symbol], most)
        self._tensors: int = plan["tensors"]
        self._cases = {tuple(case["sizes"]): _Case(functions, case) for case in plan["cases"]}

    def __call__(self, *given: Any) -> None:
        import torch

        tensors = given[: self._tensors]
        case = self._cases[given[self._tensors :]]
        where = tensors[0].device
        stream = torch.cuda.current_stream(where).cuda_stream
        memory = [*tensors, *(torch.empty(size, dtype=torch.uint8, device=where) for size in case.scratch)]
        addresses = [tensor.data_ptr() for tensor in memory]
        driver = self._driver
        for place, size in case.zero:
            code = driver.memset(addresses[place], 0, size, stream)
            if code:
                driver.check(code, "clearing memory")
        for launch in case.launches:
            launch.go(driver, addresses, stream)
