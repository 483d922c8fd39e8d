"""Whether Triton kernels are right, by Triton's own interpreter, on the CPU: `python interpreted.py FILE …`.

Runs each file's launches over the task's checked cases, those of few blocks, and prints `FILE<tab>right` or `wrong`. It
imports the files, so it is for those of this repository alone. It knows nothing of compiled forms, argument layouts or
GPUs: it tells whether the program is right, and the bench's own path is for others to test. (The interpreter multiplies
bf16 matrices as the integers that hold them: a kernel with such a `tl.dot` comes out wrong.)
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch

from kforecast.bench.correctness.gate import expect
from kforecast.bench.header.expression import evaluate
from kforecast.bench.header.load import LoadedKernel, load_kernel
from kforecast.bench.header.plan import ScalarArg, plan_launches
from kforecast.bench.tasks.dtypes import numpy_dtype
from kforecast.bench.tasks.inputs import make_inputs
from kforecast.bench.tasks.load import resolve_task
from kforecast.store.models import Case, Tensor

MOST_BLOCKS = 64
CONSTANTS = {"WARP": 32, "SM_COUNT": 132, "SMEM_MAX": 232448}


def tensor(array: np.ndarray[Any, Any], dtype: str) -> torch.Tensor:
    """A torch tensor over the same memory; bf16 travels as 16-bit integers."""
    if dtype == "bf16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def memory_for(loaded: LoadedKernel, case: Case, inputs: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Every tensor and scratch buffer; what the kernel is to write is poisoned."""
    kernel, task = loaded.kernel, loaded.task
    values = {**CONSTANTS, **case.sizes, **kernel.tunables}
    memory = {}
    for entry in (*task.tensors, *kernel.scratch):
        if isinstance(entry, Tensor) and entry.role != "out":
            memory[entry.name] = np.array(inputs[entry.name], copy=True)
            continue
        shape = [evaluate(text, values, what=entry.name, case=case.name) for text in entry.shape]
        dtype = numpy_dtype(entry.dtype)
        count = int(np.prod(shape, dtype=np.int64))
        poison = (b"\0" if entry.zero else b"\xff") * (count * dtype.itemsize)
        memory[entry.name] = np.frombuffer(bytearray(poison), dtype).reshape(shape)
    return memory


def wrong_cases(path: Path, most_blocks: int) -> list[str]:
    """The checked cases that the gate rejects, of those that take at most so many blocks."""
    loaded = load_kernel(path, resolve_task=resolve_task)
    kernel, task = loaded.kernel, loaded.task
    spec = importlib.util.spec_from_file_location(f"under_test_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    signatures = {signature.name: signature for signature in loaded.signatures}
    dtypes = {entry.name: entry.dtype for entry in (*task.tensors, *kernel.scratch)}
    found = []
    for case in task.checked:
        launches = plan_launches(kernel, task, case, loaded.signatures, CONSTANTS)
        if max(np.prod(launch.grid) for launch in launches) > most_blocks:
            continue
        inputs = make_inputs(task, case, 7)
        memory = memory_for(loaded, case, inputs)
        for launch in launches:
            arguments = [
                one.value if isinstance(one, ScalarArg) else tensor(memory[one.name], dtypes[one.name])
                for one in launch.args
            ]
            constants = [one.name for one in signatures[launch.entry].parameters if one.constant]
            values = {**kernel.tunables, **dict(launch.constexpr)}
            named = {name: values[name] for name in constants if name in values}
            getattr(module, launch.entry)[launch.grid](*arguments, **named)
        mismatch = expect(task, case, inputs).check({one.name: memory[one.name] for one in task.tensors})
        if mismatch is not None:
            found.append(f"{case.name}: {mismatch.explanation}")
    return found


def main() -> None:
    for name in sys.argv[1:]:
        wrong = wrong_cases(Path(name), MOST_BLOCKS)
        sys.stdout.write(f"{name}\t{'wrong' if wrong else 'right'}\n")
        sys.stderr.write("".join(f"{name}: {text}\n" for text in wrong))


if __name__ == "__main__":
    main()
