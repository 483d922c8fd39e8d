"""Which forms of a Triton kernel a task needs: what the compiler may assume of the arguments, as Triton's own JIT would
for each call, but decided before there is one.

The JIT compiles an integer argument that is 1 into the program, and tells the compiler which ones are multiples of 16
(Triton, `runtime/jit.py`). We do the same for the timed cases. Checked cases that no timed form holds for get one more
form that assumes what is true of every case, so that no case runs a program whose assumptions are false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....store.errors import InputError
from ....store.models import Dtype, Kernel, Task
from ...header.options import TRITON_OPTIONS
from ...header.plan import PlannedLaunch, ScalarArg
from ...header.python_signature import Decoration, jit_decoration
from ...header.signature import Signature
from ..build import FormParameter

MULTIPLE = 16
MOST_TIMED_FORMS = 3
"""Of one launch and the same constants. Where the timed cases want more, one assumes what is true of all of them."""

MOST_FORMS = 24
"""Of one launch: each is a compilation, and all of them are one cubin."""

_NAMES: dict[Dtype, str] = {"f64": "fp64", "f32": "fp32", "f16": "fp16"}
_I32 = range(-(2**31), 2**31)


@dataclass(frozen=True)
class Unit:
    """One compilation: an entry with a type for each parameter that is no constexpr, in order.

    types: as Triton writes them, `*fp32` or `i32`; parameters: what is assumed of each; constexpr: constants that
    follow from the case.
    """

    entry: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    parameters: tuple[FormParameter, ...]
    constexpr: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Forms:
    """For each launch the units that serve it, most special first, and how many of them the timed cases use."""

    units: tuple[tuple[Unit, ...], ...]
    timed: tuple[int, ...]


def forms_for(
    kernel: Kernel,
    task: Task,
    signatures: Sequence[Signature],
    timed: Sequence[Sequence[PlannedLaunch]],
    checked: Sequence[Sequence[PlannedLaunch]],
) -> Forms:
    """The forms that cover these cases, each planned as `plan_launches` does. Without timed cases the checked ones
    count as such.
    """
    by_name = {signature.name: signature for signature in signatures}
    units: list[tuple[Unit, ...]] = []
    counts: list[int] = []
    for number, launch in enumerate(kernel.launches):
        signature = by_name[launch.entry.strip()]
        decoration = jit_decoration(kernel.source, signature.name)
        shaper = _Shaper(kernel, task, signature, decoration)
        every = [case[number] for case in (*timed, *checked)]
        first = [case[number] for case in (timed or checked)]
        names = tuple(entry.name for entry in signature.parameters if not entry.constant)
        types = shaper.types(every[0], shaper.assumed(every[0], every))
        special = [
            Unit(signature.name, names, types, form, constexpr)
            for constexpr, cases in _by_constexpr(first).items()
            for form in _few([shaper.assumed(one, every) for one in cases])
        ]
        wanted = list(special)
        for constexpr, cases in _by_constexpr(every).items():
            if any(not any(holds(unit, one) for unit in special) for one in cases):
                shared = _common([shaper.assumed(one, every) for one in cases])
                wanted.append(Unit(signature.name, names, types, shared, constexpr))
        if len(wanted) > MOST_FORMS:
            raise InputError(
                f"launch {launch.entry} takes too many values of its constexprs",
                value=f"{len(wanted)} programs for {len(every)} cases",
                next_step=f"Use at most {MOST_FORMS}: a loop in the kernel serves any size with one.",
            )
        units.append(tuple(wanted))
        counts.append(len(special))
    return Forms(tuple(units), tuple(counts))


def _by_constexpr(launches: Sequence[PlannedLaunch]) -> dict[tuple[tuple[str, int], ...], list[PlannedLaunch]]:
    """The launches by the constants that their cases give, in order."""
    found: dict[tuple[tuple[str, int], ...], list[PlannedLaunch]] = {}
    for launch in launches:
        found.setdefault(launch.constexpr, []).append(launch)
    return found


def _few(forms: Sequence[tuple[FormParameter, ...]]) -> list[tuple[FormParameter, ...]]:
    """The different ones, or where they are many what they share."""
    different = list(dict.fromkeys(forms))
    return [_common(different)] if len(different) > MOST_TIMED_FORMS else different


def holds(unit: Unit, launch: PlannedLaunch) -> bool:
    """Whether what a unit assumes is true of a launch."""
    pairs = zip(unit.parameters, launch.args, strict=True)
    return unit.constexpr == launch.constexpr and all(parameter.holds(argument) for parameter, argument in pairs)


def memory_dtypes(kernel: Kernel, task: Task) -> dict[str, Dtype]:
    """The element type of every tensor and scratch buffer by name."""
    tensors: dict[str, Dtype] = {tensor.name: tensor.dtype for tensor in task.tensors}
    return tensors | {scratch.name: scratch.dtype for scratch in kernel.scratch}


def options_of(kernel: Kernel) -> dict[str, int]:
    """The tunables that are the compiler's."""
    return {name: kernel.tunables[name] for name in TRITON_OPTIONS if name in kernel.tunables}


def described(unit: Unit) -> str:
    """In words what a unit assumes: `N is a multiple of 16, stride is 1`; empty where nothing."""
    said = [f"{name} is {value}" for name, value in unit.constexpr]
    for name, parameter in zip(unit.names, unit.parameters, strict=True):
        if parameter.equals is not None:
            said.append(f"{name} is {parameter.equals}")
        elif parameter.multiple > 1:
            said.append(f"{name} is a multiple of {parameter.multiple}")
    return ", ".join(said)


class _Shaper:
    """Types and assumptions of one launch's arguments."""

    def __init__(self, kernel: Kernel, task: Task, signature: Signature, decoration: Decoration) -> None:
        self._memory = memory_dtypes(kernel, task)
        self._parameters = [entry for entry in signature.parameters if not entry.constant]
        positions = [position for position, entry in enumerate(signature.parameters) if not entry.constant]
        self._frozen = [
            decoration.specialises(position, entry.name)
            for position, entry in zip(positions, self._parameters, strict=True)
        ]

    def assumed(self, launch: PlannedLaunch, every: Sequence[PlannedLaunch]) -> tuple[FormParameter, ...]:
        """What the JIT would assume of this call, with types that hold `every` call."""
        found = []
        for position, argument in enumerate(launch.args):
            ones, multiples = self._frozen[position]
            if not isinstance(argument, ScalarArg):
                found.append(FormParameter(None))  # tensors and scratch are 256-byte aligned, all of them
                continue
            dtype = self._dtype(position, [case.args[position] for case in every])
            integer = dtype[0] in "iu"
            if integer and ones and argument.value == 1:
                found.append(FormParameter(dtype, equals=1))
            elif integer and multiples and argument.value % MULTIPLE == 0:
                found.append(FormParameter(dtype, multiple=MULTIPLE))
            else:
                found.append(FormParameter(dtype))
        return tuple(found)

    def _dtype(self, position: int, values: Sequence[object]) -> Dtype:
        """The annotation's type; else 32 bits where every case's value fits, as the JIT chooses for each call."""
        declared = self._parameters[position].dtype
        if declared is not None:
            return declared
        narrow = all(isinstance(value, ScalarArg) and value.value in _I32 for value in values)
        return "i32" if narrow else "i64"

    def types(self, launch: PlannedLaunch, form: Sequence[FormParameter]) -> tuple[str, ...]:
        """As Triton writes them; the same for all forms of a launch."""
        found = []
        for argument, parameter in zip(launch.args, form, strict=True):
            dtype = parameter.dtype if isinstance(argument, ScalarArg) else self._memory[argument.name]
            assert dtype is not None, "a number has a type"
            found.append(("" if isinstance(argument, ScalarArg) else "*") + _NAMES.get(dtype, dtype))
        return tuple(found)


def _common(forms: Sequence[tuple[FormParameter, ...]]) -> tuple[FormParameter, ...]:
    """What all of these forms assume."""
    found = []
    for column in zip(*forms, strict=True):
        first = column[0]
        same = all(one == first for one in column)
        found.append(first if same else FormParameter(first.dtype))
    return tuple(found)
