"""The three kinds of tasks as the oracle runs them: KernelBench problems, GPU MODE problems, tasks of tensors.

Everything here runs in the oracle, which is trusted as the user trusts the problem's files, and never in a process that
has met a candidate.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from ...store.errors import UnsupportedError
from ...store.models import Case, Task
from ..tasks.gpumode import NEEDED, SEED, arguments_of
from ..tasks.kernelbench import PROBLEM_FILE


class CannotRun(Exception):
    """The problem's own code fails, on this device or anywhere; the text says why."""


class Definition(Protocol):
    """One task, ready to make inputs and to run its reference."""

    weighted: bool
    """The reference is a module made once with a seed; otherwise a function."""

    def inputs(self, case: Case, seed: int) -> Any:
        """Fresh inputs, a nested value with tensors on the oracle's device."""
        ...

    def init_inputs(self, seed: int) -> Any:
        """What the module is constructed with; an empty list for functions."""
        ...

    def run(self, inputs: Any, init: Any, seed: int, *, wide: bool = False, bits: int | None = None) -> Any:
        """The reference's outputs. seed: for the weights. wide: all in float64; bits: operands of so many significand
        bits first. May change `inputs`.
        """
        ...

    def release(self) -> None:
        """Let go of what only saves time: memory of modules."""
        ...


def seed_everything(seed: int) -> None:
    """Every generator that a problem may draw from, as KernelBench and GPU MODE seed them."""
    import random

    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def moved(value: Any, device: str) -> Any:
    """The nested value with its tensors on a device."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, list | tuple):
        return [moved(entry, device) for entry in value]
    if isinstance(value, dict):
        return {key: moved(entry, device) for key, entry in value.items()}
    return value


def converted(value: Any, wide: bool, bits: int | None) -> Any:
    """The nested value with its floating-point tensors widened to float64, or rounded to fewer significand bits."""
    import torch

    if isinstance(value, torch.Tensor) and value.is_floating_point():
        if bits is not None:
            value = rounded(value, bits)
        return value.double() if wide else value
    if isinstance(value, list | tuple):
        return type(value)(converted(entry, wide, bits) for entry in value)
    if isinstance(value, dict):
        return {key: converted(entry, wide, bits) for key, entry in value.items()}
    return value


def rounded(tensor: Any, bits: int) -> Any:
    """Floats rounded to nearest-even to `bits` significand bits, in their own dtype."""
    import torch

    wide = tensor.float() if tensor.dtype != torch.float64 else tensor
    word, stored = (torch.int32, 23) if wide.dtype == torch.float32 else (torch.int64, 52)
    shift = stored + 1 - bits
    raw = wide.view(word)
    kept = (raw + (((raw >> shift) & 1) + ((1 << (shift - 1)) - 1))) & ~((1 << shift) - 1)
    return torch.where(torch.isfinite(wide), kept.view(wide.dtype), wide).to(tensor.dtype)


def _generators_as_now() -> Callable[[], None]:
    """What sets every generator back to its present state."""
    import random

    import numpy as np
    import torch

    host, plain, numbers = torch.get_rng_state(), random.getstate(), np.random.get_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def restore() -> None:
        torch.set_rng_state(host)
        random.setstate(plain)
        np.random.set_state(numbers)
        if devices:
            torch.cuda.set_rng_state_all(devices)

    return restore


class KernelBenchDefinition:
    """`Model(*get_init_inputs())` on `get_inputs()`, in float32 as the file makes them."""

    weighted = True

    def __init__(self, task: Task, device: str) -> None:
        assert task.problem is not None
        self._device = device
        self._draws_on = device
        self._space: dict[str, Any] = {"__name__": "kforecast_problem"}
        self._made: tuple[int, Any, Callable[[], None]] | None = None
        with _explained("the problem's file"):
            exec(compile(task.problem.files[PROBLEM_FILE], task.name + ".py", "exec"), self._space)

    def inputs(self, case: Case, seed: int) -> Any:
        seed_everything(seed)
        with _explained("get_inputs"):
            return moved(self._made_inputs(seed), self._device)

    def _made_inputs(self, seed: int) -> Any:
        """Drawn on the device where the file lets them be: gigabytes take the host seconds."""
        import torch

        if self._draws_on != "cpu":
            try:
                with torch.device(self._draws_on):
                    return self._space["get_inputs"]()
            except (RuntimeError, TypeError, ValueError):
                self._draws_on = "cpu"  # it draws from a generator of the host's, say
                seed_everything(seed)
        return self._space["get_inputs"]()

    def init_inputs(self, seed: int) -> Any:
        seed_everything(seed)
        with _explained("get_init_inputs"):
            return self._space["get_init_inputs"]()

    def _model(self, init: Any, seed: int) -> Any:
        """A module as it was just made. Making one can take seconds of drawing weights on the host; a copy does not."""
        import copy

        if self._made is None or self._made[0] != seed:
            self._made = seed, self._new_model(init, seed), _generators_as_now()
        _, made, restore = self._made
        try:
            copied = copy.deepcopy(made)
        except (TypeError, RuntimeError, NotImplementedError, copy.Error):
            return self._new_model(init, seed)  # some modules cannot be copied; made anew they are the same
        restore()
        return copied

    def _new_model(self, init: Any, seed: int) -> Any:
        import copy

        seed_everything(seed)
        arguments, named = (init, {}) if isinstance(init, list | tuple) else ([], init)
        return self._space["Model"](*copy.deepcopy(arguments), **copy.deepcopy(named)).to(self._device)

    def release(self) -> None:
        """Let go of the module's memory."""
        self._made = None

    def run(self, inputs: Any, init: Any, seed: int, *, wide: bool = False, bits: int | None = None) -> Any:
        import torch

        with _explained("the reference"), torch.no_grad():
            model = self._model(init, seed)
            if bits is not None:
                for parameter in model.parameters():
                    parameter.data = converted(parameter.data, False, bits)
            if not wide:
                return model(*converted(inputs, False, bits))
            before = torch.get_default_dtype()
            torch.set_default_dtype(torch.float64)  # for tensors that the model makes itself
            try:
                return model.double()(*converted(inputs, True, bits))
            finally:
                torch.set_default_dtype(before)


class GpuModeDefinition:
    """`ref_kernel(generate_input(...))`, judged by the problem's own `check_implementation`."""

    weighted = False

    def __init__(self, task: Task, device: str, folder: Path) -> None:
        assert task.problem is not None
        self._device = device
        for name, text in task.problem.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        self._folder = folder
        self._most_seed = task.problem.most_seed
        self._names = {name.removesuffix(".py").replace("/", ".") for name in task.problem.files}
        with _explained("reference.py"), self._importable():
            import importlib

            self._reference = importlib.import_module("reference")
        missing = [name for name in NEEDED if not hasattr(self._reference, name)]
        if missing:
            raise CannotRun(f"reference.py defines no {', '.join(missing)}")
        self._generate = self._reference.generate_input

    @contextlib.contextmanager
    def _importable(self) -> Iterator[None]:
        """The problem's modules by their own names; another problem has modules of the same names."""
        for name in self._names:
            sys.modules.pop(name, None)
        sys.path.insert(0, str(self._folder))
        try:
            yield
        finally:
            sys.path.remove(str(self._folder))

    def inputs(self, case: Case, seed: int) -> Any:
        arguments = arguments_of(case)
        if SEED in inspect.signature(self._generate).parameters:
            arguments[SEED] = 1 + seed % self._most_seed
        seed_everything(seed)
        with _explained("generate_input"):
            return self._generate(**arguments)

    def init_inputs(self, seed: int) -> Any:
        return []

    def run(self, inputs: Any, init: Any, seed: int, *, wide: bool = False, bits: int | None = None) -> Any:
        import torch

        with _explained("ref_kernel"), torch.no_grad():
            return self._reference.ref_kernel(inputs)

    def release(self) -> None:
        pass

    def verdict(self, inputs: Any, outputs: Any) -> str:
        """What `check_implementation` finds wrong; empty where nothing is."""
        with _explained("check_implementation"):
            found = self._reference.check_implementation(inputs, outputs)
        if isinstance(found, tuple):
            return "" if found[0] else str(found[1]) or "check_implementation says no"
        if isinstance(found, bool):
            return "" if found else "check_implementation says no"
        return str(found or "")


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn whatever a problem's own code raises into CannotRun with a sentence."""
    try:
        yield
    except (CannotRun, UnsupportedError):
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}".strip().split("\n", 1)[0][:300]
        if isinstance(error, ModuleNotFoundError) and error.name:
            text = f"it imports {error.name}, which this Python ({sys.prefix}) does not have: install it there"
        if not _has_gpu() and re.search(r"cuda|nvidia", text, re.IGNORECASE):
            text = "it makes its tensors on a GPU ('cuda'): measure it with --device cuda:0"
        if isinstance(error, MemoryError) or "allocate memory" in text or "out of memory" in text:
            asked = re.search(r"allocate (\d[\d.]* \w+)", text)
            size = f": {asked[1]} at once" if asked else ""
            text = f"it needs more memory than there is{size}; measure a smaller one"
        raise CannotRun(f"{what} fails here: {text}") from error


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


class TensorDefinition:
    """A task of tensors: all of them in the task's order, outputs included, as numpy makes the inputs."""

    weighted = False

    def __init__(self, task: Task, device: str) -> None:
        self.task = task
        self._device = device

    def inputs(self, case: Case, seed: int) -> Any:
        import numpy as np
        import torch

        from ..correctness.poison import fill_poison
        from ..tasks.dtypes import numpy_dtype
        from ..tasks.inputs import make_inputs
        from ..tasks.shapes import shape_of

        made = make_inputs(self.task, case, seed)
        found = []
        for tensor in self.task.tensors:
            array = made.get(tensor.name)
            if array is None:
                array = np.zeros(shape_of(tensor, case), numpy_dtype(tensor.dtype))
                if not tensor.zero:
                    fill_poison(array, tensor.dtype)
            found.append(tensor_of(np.ascontiguousarray(array), tensor.dtype).to(self._device))
        assert all(isinstance(tensor, torch.Tensor) for tensor in found)
        return found

    def init_inputs(self, seed: int) -> Any:
        return []

    def run(self, inputs: Any, init: Any, seed: int, *, wide: bool = False, bits: int | None = None) -> Any:
        raise NotImplementedError("tasks of tensors are judged by bench.correctness on numpy")

    def release(self) -> None:
        pass


TORCH_NAMES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
}  # fmt: skip
"""torch's dtypes by ours."""


def tensor_of(array: Any, dtype: str) -> Any:
    """A C-contiguous numpy array of one of our dtypes as a torch tensor with memory of its own."""
    import numpy as np
    import torch

    if dtype == "bf16":
        return torch.from_numpy(array.view(np.uint16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def array_module(tensor: Any) -> Any:
    """The module that computes where a tensor lies: cupy on a GPU where there is one installed, else numpy."""
    import numpy as np

    if not tensor.is_cuda or find_spec("cupy") is None:
        return np
    import cupy

    return cupy


def array_of(tensor: Any, xp: Any = None) -> Any:
    """A torch tensor as a contiguous array of `xp` (None: numpy): bf16 as raw bits in uint16, bool and 8-bit floats as
    bytes, complex numbers as pairs.
    """
    import torch

    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bool or str(tensor.dtype).startswith(("torch.float8", "torch.float4")):
        tensor = tensor.view(torch.uint8)
    elif tensor.is_complex():
        tensor = torch.view_as_real(tensor).contiguous()
    raw = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
    array = xp.asarray(raw) if xp is not None and xp.__name__ == "cupy" else raw.cpu().numpy()
    return array.view("uint16") if tensor.dtype == torch.bfloat16 else array


def define(task: Task, device: str, folder: Path) -> Definition:
    """The task's definition on `cpu` or `cuda:N`; `folder` holds a problem's files. Raises CannotRun."""
    if task.problem is None:
        return TensorDefinition(task, device)
    if task.problem.format == "kernelbench":
        return KernelBenchDefinition(task, device)
    return GpuModeDefinition(task, device, folder)
