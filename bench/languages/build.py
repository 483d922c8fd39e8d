"""What every language's compiler returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...store.errors import DeviceError, InputError
from ...store.models import Dtype, Facts, Kernel
from ..header.plan import PlannedLaunch, PointerArg, ScalarArg

MOST_SCRATCH = 1 << 30


@dataclass(frozen=True)
class FormParameter:
    """What one parameter of a form is, and what its compiler assumed of the argument.

    dtype: of a number; None: a pointer. equals: compiled in, so no parameter at all. multiple: a divisor of the number.
    """

    dtype: Dtype | None
    equals: int | None = None
    multiple: int = 1

    def holds(self, argument: PointerArg | ScalarArg) -> bool:
        """Whether the assumption is true of an argument."""
        if not isinstance(argument, ScalarArg):
            return self.dtype is None
        fits = self.equals is None or argument.value == self.equals
        return self.dtype is not None and fits and argument.value % self.multiple == 0

    def passed(self, argument: PointerArg | ScalarArg) -> PointerArg | ScalarArg:
        """The argument in the parameter's own type."""
        if not isinstance(argument, ScalarArg) or self.dtype is None:
            return argument
        return replace(argument, dtype=self.dtype)


@dataclass(frozen=True)
class Form:
    """One compiled form of a kernel's launch number `launch`, for arguments of which its assumptions are true.

    threads: of a block, as the compiler fixed them; smem: dynamic shared memory in bytes; ctas: blocks of a cluster
    that stand for one block of the grid, along x; trailing: pointers that follow the arguments, null ones but for the
    first where the kernel needs memory of its compiler's own. scratch: bytes of that for each block. constexpr:
    constants of the case that are compiled in, by name.
    """

    launch: int
    symbol: str
    threads: int
    smem: int
    ctas: int
    parameters: tuple[FormParameter, ...]
    trailing: int
    constexpr: tuple[tuple[str, int], ...] = ()
    scratch: int = 0

    def placed(self, launch: PlannedLaunch) -> PlannedLaunch | None:
        """The launch as this form takes it; None where an assumption is not true of its arguments."""
        pairs = list(zip(self.parameters, launch.args, strict=True))
        if self.constexpr != launch.constexpr or not all(parameter.holds(argument) for parameter, argument in pairs):
            return None
        args = [parameter.passed(argument) for parameter, argument in pairs if parameter.equals is None]
        trailing: list[PointerArg | ScalarArg] = [ScalarArg(0, "void*", "u64")] * self.trailing
        if self.scratch:
            trailing[0] = PointerArg(self.scratch_name)
        x, y, z = launch.grid
        block, grid = (self.threads, 1, 1), (x * self.ctas, y, z)
        return replace(launch, args=(*args, *trailing), grid=grid, block=block, smem=self.smem)

    @property
    def scratch_name(self) -> str:
        """No name that a header can give."""
        return f"compiler's own of launch {self.launch + 1}"


@dataclass(frozen=True)
class Build:
    """A compiled kernel, or the reason there is none.

    binary: the artefact in the content-addressed cache (a cubin, a shared object), None where `facts.ok` is false.
    symbols: for each launch entry as the header writes it, the symbol to load from the binary.
    log: what the compiler printed, in the user's file name and line numbers.
    forms: where the compiler decides how a launch is made (Triton), most special first; empty elsewhere.
    """

    binary: Path | None
    facts: Facts
    symbols: dict[str, str] = field(default_factory=dict)
    log: str = ""
    forms: tuple[Form, ...] = ()

    @property
    def ok(self) -> bool:
        return self.facts.ok

    def placed(self, launches: Sequence[PlannedLaunch]) -> list[tuple[str, PlannedLaunch]]:
        """The symbol and the final shape of every launch of one case, in the kernel's order."""
        if not self.forms:
            return [(self.symbols[launch.entry], launch) for launch in launches]
        return [self._in_form(number, launch) for number, launch in enumerate(launches)]

    def scratch(self, launches: Sequence[PlannedLaunch]) -> dict[str, int]:
        """Bytes of memory that the compiler wants of its own for the launches of one case, by name. Raises InputError
        where it is more than a GiB.
        """
        found = {}
        for number, launch in enumerate(launches):
            if any(form.scratch for form in self.forms if form.launch == number):
                form, placed = self._form(number, launch)
                x, y, z = placed.grid
                found[form.scratch_name] = size = x * y * z * form.scratch
                if size > MOST_SCRATCH:
                    raise InputError(
                        f"launch {launch.entry} wants too much memory for tensor descriptors",
                        value=f"{size} bytes for {x * y * z} blocks",
                        next_step="Use fewer blocks, each of which loops.",
                    )
        return {name: size for name, size in found.items() if size}

    def _in_form(self, number: int, launch: PlannedLaunch) -> tuple[str, PlannedLaunch]:
        form, placed = self._form(number, launch)
        return form.symbol, placed

    def _form(self, number: int, launch: PlannedLaunch) -> tuple[Form, PlannedLaunch]:
        for form in self.forms:
            placed = form.placed(launch) if form.launch == number else None
            if placed is not None:
                return form, placed
        raise AssertionError(f"no form for launch {number}: every case of the task had one when it was compiled")


def check_toolchain(kernel: Kernel, here: str) -> None:
    """Raises DeviceError where the toolchain in the kernel's id is not the one that compiles here: what is measured
    under an id is what that toolchain made.
    """
    if kernel.toolchain not in ("", here):
        raise DeviceError(
            "the kernel's id belongs to a compiler that is not here",
            value=f"{kernel.toolchain}; here is {here}",
            next_step="Give the kernel's file: its id then follows from the compiler that is here. "
            "What has run since before the compiler was replaced is to be started again.",
        )
