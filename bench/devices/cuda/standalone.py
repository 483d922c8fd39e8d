"""One kernel, one case, launched once in a process of its own: what Nsight Compute and compute-sanitizer look at.

Started as `python -m kforecast.bench.devices.cuda.standalone PLAN.json`, usually by such a tool. It fills the inputs
from the plan's seed, poisons what the kernel writes, launches, waits, and judges nothing. Every tensor is an allocation
of its own, so that an access past its end is one that a tool can see. The plan (see `inspection.plan_of`):

    {ordinal, cubin, task, case, seed, scratch: {name: bytes}, zero: [names],
     launches: [{symbol, grid, block, smem, args}]}

An argument is ["s", bits] or ["t", name of a tensor or scratch buffer].

Exits with 0, or with 3 after a CUDA error, which it prints.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cuda

from ....store.models import Case, Task
from ...tasks.inputs import make_inputs
from ...tasks.shapes import bytes_of
from .launcher import CudaFailure, PlacedLaunch, check

_POISON = 0xFF


def run(plan: dict[str, Any]) -> None:
    """Launch what the plan says and wait for it. Raises CudaFailure."""
    check(cuda.cuInit(0), "cuInit")
    device = check(cuda.cuDeviceGet(plan["ordinal"]), "cuDeviceGet")
    context = check(cuda.cuDevicePrimaryCtxRetain(device), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    addresses = _place(plan)
    module = check(cuda.cuModuleLoad(plan["cubin"].encode()), "cuModuleLoad")
    for launch in plan["launches"]:
        function = check(cuda.cuModuleGetFunction(module, launch["symbol"].encode()), "cuModuleGetFunction")
        if launch["smem"]:
            attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(cuda.cuFuncSetAttribute(function, attribute, launch["smem"]), "cuFuncSetAttribute")
        args = [("s", addresses[value] if kind == "t" else value) for kind, value in launch["args"]]
        PlacedLaunch(function, {**launch, "args": args}).launch(0, 0, 0)
    check(cuda.cuCtxSynchronize(), "cuCtxSynchronize")


def _place(plan: dict[str, Any]) -> dict[str, int]:
    """Allocate and fill every tensor and scratch buffer; their addresses by name."""
    task, case = Task.model_validate(plan["task"]), Case.model_validate(plan["case"])
    sizes = {tensor.name: bytes_of(tensor, case) for tensor in task.tensors} | plan["scratch"]
    inputs = {name: np.ascontiguousarray(array) for name, array in make_inputs(task, case, plan["seed"]).items()}
    addresses = {}
    for name, size in sizes.items():
        address = int(check(cuda.cuMemAlloc(max(size, 1)), "cuMemAlloc"))
        check(cuda.cuMemsetD8(address, 0 if name in plan["zero"] else _POISON, size), "cuMemsetD8")
        if name in inputs:
            check(cuda.cuMemcpyHtoD(address, inputs[name].ctypes.data, size), "cuMemcpyHtoD")
        addresses[name] = address
    return addresses


def main() -> int:
    """Entry point of the process."""
    try:
        run(json.loads(Path(sys.argv[1]).read_text()))
    except CudaFailure as failure:
        sys.stderr.write(f"{failure}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
