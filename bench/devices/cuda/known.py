"""What the launcher in use knows of a measurement's kernels: their modules, and the launches of each case."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....store.errors import DeviceError, InputError, UnsupportedError
from ....store.models import Case, Task, Verdict
from ...faults import KernelFault
from ...header.plan import PlannedLaunch, ScalarArg, plan_launches
from ...lane import Program
from ...timing.samples import Side
from ..scalars import scalar_bits
from .layout import Layout, lay_out, scratch_of

Place = tuple[str, int, Case, Layout]
"""The kind of a case (`checked` or `timed`), its number among them, the case, and how its tensors lie."""


class Known:
    """programs: of each side, to be filled in by who measures. ask: sends the launcher a message, as a session does.

    What a candidate cannot do is a KernelFault, what a baseline cannot an InputError.
    """

    def __init__(self, task: Task, constants: Mapping[str, int], ask: Callable[..., dict[str, Any]]) -> None:
        self.programs: dict[Side, Program] = {}
        self.unreachable: set[str] = set()
        """Device variables that cannot be set back."""
        self._task = task
        self._constants = constants
        self._ask = ask
        self._modules: dict[Side, int] = {}
        self._numbers: dict[tuple[Side, str, int], int] = {}

    def number(self, side: Side, kind: str, index: int) -> int:
        """The launcher's number for a side's program for a case that was made known."""
        return self._numbers[side, kind, index]

    def keeps_state(self, side: Side) -> bool:
        """Whether it has device variables that a launch may write and the next one read."""
        return "stateful" in self.programs[side].build.facts.labels

    def forget(self) -> None:
        """To be called when the launcher was replaced: everything that it knew is gone."""
        self._modules.clear()
        self._numbers.clear()

    def make(self, wanted: Mapping[Side, Sequence[Place]]) -> None:
        """Let the launcher know what it does not know of these, in one message for all modules that it has to load."""
        places: list[list[tuple[Side, str, int]]] = []
        modules: list[dict[str, Any]] = []
        for side, cases in wanted.items():
            missing = [place for place in cases if (side, *place[:2]) not in self._numbers]
            if not missing:
                continue
            programs = [self._program(side, case, layout) for _, _, case, layout in missing]
            keys = [(side, kind, index) for kind, index, _, _ in missing]
            if side in self._modules:
                further = [{**program, "module": self._modules[side]} for program in programs]
                self._numbers.update(zip(keys, self._ask("programs", programs=further)["programs"], strict=True))
                continue
            modules.append({**self._module(side), "programs": programs})
            places.append(keys)
        try:
            answers = self._ask("load", modules=modules)["loaded"] if modules else []
        except KernelFault:
            if len(modules) == 1:
                raise
            # Whose fault it is, shows when each is loaded by itself: the other one where it is needed.
            self._ask("unload")
            self.forget()
            self.make(dict(itertools.islice(wanted.items(), 1)))
            return
        for keys, loaded in zip(places, answers, strict=True):
            self._modules[keys[0][0]] = loaded["module"]
            self.unreachable.update(loaded["unreachable"])
            self._numbers.update(zip(keys, loaded["programs"], strict=True))

    def _module(self, side: Side) -> dict[str, Any]:
        cubin = self.programs[side].build.binary
        if cubin is None or not cubin.exists():
            raise DeviceError(
                "a compiled kernel is gone from the cache",
                value=str(cubin),
                next_step="Measure again: it is compiled anew.",
            )
        return {"cubin": str(cubin), "stateful": self.keeps_state(side)}

    def _program(self, side: Side, case: Case, layout: Layout) -> dict[str, Any]:
        program = self.programs[side]
        try:
            launches = plan_launches(program.kernel, self._task, case, program.signatures, self._constants)
        except InputError as error:
            raise KernelFault("launch_error", str(error)) from error
        except UnsupportedError as error:
            raise KernelFault("unsupported", str(error)) from error
        zero = [layout.outputs[name] for name in layout.zero]
        zero += [layout.scratch[side, entry.name][:2] for entry in program.kernel.scratch if entry.zero]
        return {
            "launches": [self._launch(side, *placed, layout) for placed in program.build.placed(launches)],
            "zero": zero,
        }

    def _launch(self, side: Side, symbol: str, launch: PlannedLaunch, layout: Layout) -> dict[str, Any]:
        arguments: list[tuple[str, int]] = []
        for argument in launch.args:
            if isinstance(argument, ScalarArg):
                arguments.append(("s", scalar_bits(argument)))
            elif argument.name in layout.inputs:
                arguments.append(("i", layout.inputs[argument.name][0]))
            elif argument.name in layout.outputs:
                arguments.append(("o", layout.outputs[argument.name][0]))
            else:
                arguments.append(("o", layout.scratch[side, argument.name][0]))
        return {"symbol": symbol, "grid": launch.grid, "block": launch.block, "smem": launch.smem, "args": arguments}

    def layout(self, case: Case) -> Layout:
        """How the tensors of a case lie, and the scratch memory of both sides."""
        more: dict[str, dict[str, int]] = {side: self._scratch(side, case) for side in self.programs}
        try:
            return lay_out(self._task, case, {s: p.kernel for s, p in self.programs.items()}, self._constants, more)
        except InputError as error:
            raise KernelFault("launch_error", str(error)) from error
        except UnsupportedError as error:
            raise KernelFault("unsupported", str(error)) from error

    def _scratch(self, side: Side, case: Case) -> dict[str, int]:
        try:
            return scratch_of(self.programs[side], self._task, case, self._constants)
        except (InputError, UnsupportedError) as error:
            if side == "candidate":
                verdict: Verdict = "launch_error" if isinstance(error, InputError) else "unsupported"
                raise KernelFault(verdict, str(error)) from error
            raise InputError(
                "the baseline is no measure: the memory that it needs is not known",
                value=f"{self.programs[side].kernel.name}: {error}",
                next_step="Give a baseline that is right, or `--baseline none` for times without a ratio.",
            ) from error
