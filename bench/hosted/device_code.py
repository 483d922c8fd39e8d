"""Compiled CUDA and Triton kernels as Python programs, so that they run beside torch's: in a process of the same kind,
by the same clock, with the host's work of a launch in the time.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from typing import Any

from ...store.errors import InputError, UnsupportedError
from ...store.models import Case, Kernel, Launch, Task
from ..devices.cuda.layout import lay_out, scratch_of
from ..devices.scalars import scalar_bits
from ..faults import KernelFault
from ..header.plan import PlannedLaunch, ScalarArg, plan_launches
from ..lane import Program
from .launching import PLAN, Launcher

NOTE = "both sides were launched from Python by the parent's clock: host overhead is in both sides' times"
_FILE = "launching.py"
_SIDE = "kernel"


def as_hosted(program: Program, task: Task, constants: Mapping[str, int]) -> Program:
    """The program as the host-code lane runs it: a Python program as it is, device code in a launcher of ours.

    constants: SMEM_MAX (bytes), SM_COUNT and WARP of the device. Outputs that start as zeros and scratch memory that
    does are cleared in each call; other scratch memory is the allocator's, as it is. Raises KernelFault: `launch_error`
    for arguments or geometry that do not fit, `unsupported` for launches that cannot be made.
    """
    kernel = program.kernel
    if kernel.language == "torch":
        return program
    assert program.build.binary is not None, "a program that did not compile is never run"
    every = {tuple(case.sizes.values()): case for case in (*task.checked, *task.timed_on("cuda"))}
    cases = [_case(program, task, case, constants) for case in every.values()]
    shared: dict[str, int] = {}
    for launch in (launch for case in cases for launch in case["launches"]):
        shared[launch["symbol"]] = max(shared.get(launch["symbol"], 0), launch["smem"])
    plan = {
        "cubin": base64.b64encode(program.build.binary.read_bytes()).decode(),
        "shared": shared,
        "tensors": len(task.tensors),
        "cases": cases,
    }
    arguments = (*(tensor.name for tensor in task.tensors), *task.size_names)
    hosted = {
        "language": "torch",
        "name": _FILE,
        "source": launcher_text(),
        "includes": {PLAN: json.dumps(plan)},
        "launches": (Launch(entry=Launcher.__name__, args=arguments),),
        "scratch": (),
        "tunables": {},
    }
    return replace(program, kernel=Kernel.model_copy(kernel, update=hosted))


def launcher_text() -> str:
    """The source that is sent to the candidate's process."""
    return resources.files(__package__).joinpath(_FILE).read_text(encoding="utf-8")


def _case(program: Program, task: Task, case: Case, constants: Mapping[str, int]) -> dict[str, Any]:
    """What `launching` needs to know of one case."""
    kernel = program.kernel
    try:
        launches = plan_launches(kernel, task, case, program.signatures, constants)
        own = scratch_of(program, task, case, constants)
        layout = lay_out(task, case, {_SIDE: kernel}, constants, {_SIDE: own})
    except InputError as error:
        raise KernelFault("launch_error", str(error)) from error
    except UnsupportedError as error:
        raise KernelFault("unsupported", str(error)) from error
    scratch = {name: size for (_, name), (_, size, _) in layout.scratch.items()}
    places = {name: place for place, name in enumerate((*(tensor.name for tensor in task.tensors), *scratch))}
    zero = [(places[name], layout.outputs[name][1]) for name in layout.zero]
    zero += [(places[entry.name], scratch[entry.name]) for entry in kernel.scratch if entry.zero]
    return {
        "sizes": [case.sizes[name] for name in task.size_names],
        "launches": [_launch(symbol, launch, places) for symbol, launch in program.build.placed(launches)],
        "scratch": list(scratch.values()),
        "zero": zero,
    }


def _launch(symbol: str, launch: PlannedLaunch, places: Mapping[str, int]) -> dict[str, Any]:
    args = [
        ("number", scalar_bits(argument)) if isinstance(argument, ScalarArg) else ("memory", places[argument.name])
        for argument in launch.args
    ]
    return {"symbol": symbol, "grid": launch.grid, "block": launch.block, "smem": launch.smem, "args": args}
