"""From a kernel's declared launches and one case to numbers: arguments, grid, block and shared memory, all checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...store.errors import InputError, UnsupportedError
from ...store.models import Case, Dtype, Kernel, Launch, Task
from .ctype import c_type, fits, holds
from .entry import Instance, instantiate
from .expression import Expression, evaluate, shown_values
from .names import suggestion
from .signature import Parameter, Signature
from .tokens import tokens

GRID_LIMITS = (2**31 - 1, 65535, 65535)
BLOCK_LIMITS = (1024, 1024, 64)
THREADS_LIMIT = 1024
"""CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability": the same from 5.0 to 12.x."""

TRITON_WARPS = 4
"""Triton's default, where no tunable num_warps says otherwise."""
_WARPS = (1, 2, 4, 8, 16, 32)

_GRIDS = frozenset(("this_grid", "grid_group", "this_multi_grid", "multi_grid_group"))
_WAITS = frozenset(("sync", "barrier_arrive", "barrier_wait"))


@dataclass(frozen=True)
class PointerArg:
    """The address of a tensor or scratch memory, `offset` elements in."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class ScalarArg:
    """A number passed by value; `ctype` is the parameter's type as written, `dtype` says how to pack it."""

    value: int
    ctype: str
    dtype: Dtype


@dataclass(frozen=True)
class PlannedLaunch:
    """One launch in numbers. `entry` is as the header writes it, `expression` as the compiler is asked for it.

    grid and block count in x, y, z; smem is dynamic shared memory in bytes. All are 1 and 0 for language `c`.
    constexpr: names and values of Triton's constants that follow from the case.
    """

    entry: str
    expression: str
    args: tuple[PointerArg | ScalarArg, ...]
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    smem: int = 0
    constexpr: tuple[tuple[str, int], ...] = ()


def plan_launches(
    kernel: Kernel, task: Task, case: Case, signatures: Sequence[Signature], constants: Mapping[str, int]
) -> tuple[PlannedLaunch, ...]:
    """The kernel's launches for one case, in order.

    constants: SMEM_MAX (bytes), SM_COUNT and WARP of the device, as far as it has them.
    Raises InputError for arguments that do not match the signature, a value that does not fit its C type, or geometry
    beyond the device; UnsupportedError for structs by value, tensor maps, cooperative launches and signatures that
    could not be understood. Both name the launch, the case and the values.
    """
    used = _grid_wide_sync((kernel.source, *kernel.includes.values())) if kernel.language == "cuda" else None
    if used is not None:
        raise UnsupportedError(
            "the kernel synchronises its whole grid, which takes a cooperative launch",
            value=used,
            next_step="Split it into several launches at the points where the grid synchronises.",
        )
    return tuple(_Planner(kernel, task, case, launch, constants).plan(signatures) for launch in kernel.launches)


class _Planner:
    """Plans one launch for one case."""

    def __init__(self, kernel: Kernel, task: Task, case: Case, launch: Launch, constants: Mapping[str, int]) -> None:
        self.kernel, self.case, self.launch, self.constants = kernel, case, launch, constants
        self.configuration = {**constants, **kernel.tunables}
        self.values = {**self.configuration, **case.sizes}
        self.memory: dict[str, Dtype] = {tensor.name: tensor.dtype for tensor in task.tensors}
        self.memory.update({scratch.name: scratch.dtype for scratch in kernel.scratch})
        self.inputs = {tensor.name for tensor in task.tensors if tensor.role == "in"}

    def plan(self, signatures: Sequence[Signature]) -> PlannedLaunch:
        instance = instantiate(self.launch.entry, signatures, self.configuration)
        constexpr = self._constexpr(instance.signature)
        args = self._arguments(instance)
        if self.kernel.language == "c":
            return PlannedLaunch(self.launch.entry, instance.expression, args)
        grid = self._axes("grid", self.launch.grid, GRID_LIMITS)
        if self.kernel.language == "triton":
            block = self._triton_block()
            return PlannedLaunch(self.launch.entry, instance.expression, args, grid, block, constexpr=constexpr)
        block = self._axes("block", self.launch.block, BLOCK_LIMITS)
        threads = block[0] * block[1] * block[2]
        if threads > THREADS_LIMIT:
            raise self._beyond("threads of a block", threads, THREADS_LIMIT, self.launch.block)
        smem = evaluate(self.launch.smem, self.values, what=f"smem {self._of}", minimum=0, case=self.case.name)
        if smem > self.constants.get("SMEM_MAX", smem):
            raise self._beyond("smem", smem, self.constants["SMEM_MAX"], (self.launch.smem,))
        return PlannedLaunch(self.launch.entry, instance.expression, args, grid, block, smem)

    def _constexpr(self, signature: Signature) -> tuple[tuple[str, int], ...]:
        """The constants that this case gives."""
        if self.launch.constexpr and self.kernel.language != "triton":
            raise InputError(
                f"launch {self.launch.entry} gives constexprs, which Triton kernels alone have",
                value=", ".join(self.launch.constexpr),
                next_step="Leave them out.",
            )
        known = {entry.name for entry in signature.parameters if entry.constant}
        found = []
        for name, text in sorted(self.launch.constexpr.items()):
            if name not in known or name in self.configuration:
                raise InputError(
                    f"{name} {self._of} is "
                    + (
                        "a tunable as well" if name in known else f"no constexpr of the kernel on line {signature.line}"
                    ),
                    value=f"{name} = {text}",
                    next_step="Give each constexpr one value." if name in known else suggestion(name, known),
                )
            found.append((name, evaluate(text, self.values, what=f"constexpr {name} {self._of}", case=self.case.name)))
        return tuple(found)

    def _triton_block(self) -> tuple[int, int, int]:
        """Its threads follow from num_warps, and its shared memory from the compiler."""
        if self.launch.block != ("1",) or self.launch.smem != "0":
            raise InputError(
                f"launch {self.launch.entry} of a Triton kernel gives a block or shared memory",
                value=f"block {list(self.launch.block)}, smem {self.launch.smem}",
                next_step="Leave both out: put num_warps into [tune]; Triton decides on shared memory.",
            )
        warps = self.configuration.get("num_warps", TRITON_WARPS)
        if warps not in _WARPS:
            raise InputError(
                "num_warps is no power of two from 1 to 32", value=warps, next_step="Use 1, 2, 4, 8, 16 or 32."
            )
        return warps * 32, 1, 1

    @property
    def _of(self) -> str:
        return f"of launch {self.launch.entry}"

    def _axes(self, what: str, texts: Sequence[str], limits: tuple[int, int, int]) -> tuple[int, int, int]:
        sizes: list[int] = []
        for axis, text, limit in zip("xyz", (*texts, "1", "1"), limits, strict=False):
            size = evaluate(text, self.values, what=f"{what} {axis} {self._of}", minimum=1, case=self.case.name)
            if size > limit:
                raise self._beyond(f"{what} {axis}", size, limit, (text,))
            sizes.append(size)
        return sizes[0], sizes[1], sizes[2]

    def _beyond(self, what: str, size: int, limit: int, texts: Sequence[str]) -> InputError:
        names = frozenset[str]().union(*(Expression.parse(text).names for text in texts))
        return InputError(
            f"{what} = {size}{shown_values(names, self.values)}, but the device allows {limit}",
            value=f"{', '.join(texts)} {self._of}, case {self.case.name}",
            next_step="Cover the task with fewer or smaller pieces, for example by a loop in the kernel.",
        )

    def _arguments(self, instance: Instance) -> tuple[PointerArg | ScalarArg, ...]:
        signature = instance.signature
        if self.kernel.language in ("triton", "torch"):
            return self._python_arguments(signature)
        if signature.problem is not None:
            raise UnsupportedError(
                f"the signature on line {signature.line} cannot be understood: {signature.problem}",
                value=str(signature),
                next_step="Write the definition without macros and with plain pointer and scalar parameters.",
            )
        if signature.returns.split() != ["void"]:
            raise InputError(
                f"the kernel on line {signature.line} returns a value",
                value=f"{signature.returns} {signature.name}",
                next_step="Return void and write results through a pointer.",
            )
        self._check_count(signature, len(signature.parameters))
        return tuple(
            self._argument(position, text, parameter, instance)
            for position, (text, parameter) in enumerate(zip(self.launch.args, signature.parameters, strict=True), 1)
        )

    def _check_count(self, signature: Signature, wanted: int) -> None:
        if len(self.launch.args) != wanted:
            raise InputError(
                f"launch {self.launch.entry} has {len(self.launch.args)} args, but the kernel on line {signature.line} "
                f"takes {wanted}",
                value=f"[{', '.join(self.launch.args)}] for {signature}",
                next_step="List one argument for each parameter, in the same order.",
            )

    def _argument(self, position: int, text: str, parameter: Parameter, instance: Instance) -> PointerArg | ScalarArg:
        where = f"argument {position} {self._of}"
        if parameter.problem is not None:
            raise UnsupportedError(
                f"{where} cannot be passed: {parameter.problem}",
                value=str(parameter),
                next_step="Take plain pointers and scalars instead.",
            )
        dtype = parameter.dtype or instance.types.get(parameter.template_type or "")
        name = text.strip()
        if name in self.memory:
            return self._pointer(where, name, parameter, dtype)
        if parameter.pointer:
            raise InputError(
                f"{where} is a number, but the parameter is a pointer",
                value=f"{text} for {parameter}",
                next_step=f"Pass one of: {', '.join(self.memory)}.",
            )
        value = evaluate(text, self.values, what=where, case=self.case.name)
        if dtype is None:
            raise UnsupportedError(
                f"{where} goes to a type that depends on the template",
                value=str(parameter),
                next_step="Give the parameter a plain type, or pass the type as template argument of the entry.",
            )
        if not fits(value, dtype):
            raise InputError(
                f"{where} of case {self.case.name} does not fit its parameter",
                value=f"{text} = {value}{Expression.parse(text).at(self.values)} for {parameter}",
                next_step="Give the parameter a wider type, such as long long.",
            )
        return ScalarArg(value, parameter.ctype, dtype)

    def _pointer(self, where: str, name: str, parameter: Parameter, target: Dtype | None) -> PointerArg:
        dtype = self.memory[name]
        if not parameter.pointer:
            raise InputError(
                f"{where} is memory, but the parameter is a number",
                value=f"{name} for {parameter}",
                next_step="Pass a size or another expression, or make the parameter a pointer.",
            )
        if target is not None and not holds(target, dtype):
            wanted = c_type(dtype, cuda=self.kernel.language == "cuda")
            raise InputError(
                f"{where} is {dtype}, but the parameter points to {target}",
                value=f"{name} for {parameter}",
                next_step=f"Make the parameter {wanted}*, or pass memory of dtype {target}.",
            )
        if name in self.inputs and not parameter.const:
            raise InputError(
                f"{where} is an input, but the parameter may write to it",
                value=f"{name} for {parameter}",
                next_step="Declare the parameter as pointer to const, or the tensor as inout in the task.",
            )
        return PointerArg(name)

    def _python_arguments(self, signature: Signature) -> tuple[PointerArg | ScalarArg, ...]:
        """Python parameters may have no types: then scalars are 64 bits wide here, and the compiler narrows them."""
        for entry in signature.parameters:
            if entry.problem is not None and self.kernel.language == "triton":
                raise UnsupportedError(
                    f"the kernel on line {signature.line} takes {entry.problem}",
                    value=str(signature),
                    next_step="Name every parameter.",
                )
            given = entry.default or entry.name in self.configuration or entry.name in self.launch.constexpr
            if entry.constant and not given:
                raise InputError(
                    f"a constexpr of the kernel on line {signature.line} has no value",
                    value=entry.name,
                    next_step="Declare a tunable of this name in [tune], or give the parameter a default; where it "
                    f'follows from sizes, write constexpr = {{ {entry.name} = "pow2ceil(…)" }} in the launch.',
                )
        runtime = [entry for entry in signature.parameters if not entry.constant]
        if self.kernel.language == "triton":
            self._check_count(signature, len(runtime))
        args: list[PointerArg | ScalarArg] = []
        for position, text in enumerate(self.launch.args, 1):
            if text.strip() in self.memory:
                args.append(PointerArg(text.strip()))
                continue
            where = f"argument {position} {self._of}"
            value = evaluate(text, self.values, what=where, case=self.case.name)
            declared = runtime[position - 1] if position <= len(runtime) else None
            if declared is None or declared.dtype is None:
                args.append(ScalarArg(value, "int64_t", "i64"))
            elif fits(value, declared.dtype):
                args.append(ScalarArg(value, declared.ctype, declared.dtype))
            else:
                raise InputError(
                    f"{where} of case {self.case.name} does not fit its parameter",
                    value=f"{text} = {value}{Expression.parse(text).at(self.values)} for {declared}",
                    next_step="Annotate the parameter with a wider type, or not at all.",
                )
        return tuple(args)


@lru_cache(maxsize=64)
def _grid_wide_sync(sources: tuple[str, ...]) -> str | None:
    """The grid whose threads wait for each other, or None. To ask a grid for ranks and sizes takes no such launch."""
    for source in sources:
        if not any(name in source for name in _GRIDS):
            continue
        words = [token.text for token in tokens(source) if token.kind in ("name", "sign")]
        groups = {word: word for word in words if word in _GRIDS}
        for index, word in enumerate(words):
            if word not in _GRIDS:
                continue
            # `grid = cg::this_grid()`, `grid_group grid`, `grid_group& grid`
            before = [w for w in words[max(index - 4, 0) : index] if w not in ("cg", "cooperative_groups", "::")]
            if len(before) > 1 and before[-1] in ("=", "{", "("):
                groups[before[-2]] = word
            after = [w for w in words[index + 1 : index + 4] if w not in ("&", "const")]
            if word.endswith("_group") and after:
                groups[after[0]] = word
        for index, word in enumerate(words):
            if word not in _WAITS:
                continue
            # `grid.sync()`, `cg::this_grid().sync()`, `sync(grid)`
            owner = [w for w in words[max(index - 4, 0) : index] if w not in "()"]
            given = [w for w in words[index + 2 : index + 5] if w not in ("cg", "cooperative_groups", "::")]
            for group in ([owner[-2]] if owner[-1:] == ["."] and len(owner) > 1 else []) + given[:1]:
                if group in groups:
                    return groups[group]
    return None
