"""Entry points of Python kernel files, from their syntax tree; nothing of them is run."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass

from ...store.errors import InputError
from ...store.models import Dtype
from .signature import Parameter, Signature

_SCALARS: dict[str, Dtype] = {
    "double": "f64", "float64": "f64", "fp64": "f64", "float": "f32", "float32": "f32", "fp32": "f32",
    "half": "f16", "float16": "f16", "fp16": "f16", "bfloat16": "bf16", "bf16": "bf16",
    "int": "i32", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "u8", "u16": "u16", "u32": "u32", "u64": "u64",
}  # fmt: skip
"""Annotations that fix a number's type in Triton (`runtime/jit.py`, type_canonicalisation_dict)."""


def python_signatures(source: str, *, triton: bool) -> tuple[Signature, ...]:
    """Triton: top-level functions decorated with `jit`; torch: top-level functions and classes. None for bad syntax."""
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()  # the compiler reports it, with the place
    found: list[Signature] = []
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef) and (not triton or is_jitted(statement)):
            found.append(Signature(statement.name, _parameters(statement), line=statement.lineno))
        elif isinstance(statement, ast.ClassDef) and not triton:
            found.append(Signature(statement.name, (), line=statement.lineno))
    return tuple(found)


def check_python(source: str, name: str) -> None:
    """Raises InputError with the place where a text is no Python."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of an odd escape in somebody's string
            ast.parse(source)
    except SyntaxError as error:
        text = (error.text or "").strip()
        raise InputError(
            "the file is no Python",
            value=f"{name}:{error.lineno}:{error.offset}: error: {type(error).__name__}: {error.msg}: {text[:120]}",
            next_step="Correct it there.",
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(
            f"the file is no Python that can be read: {error}", value=name, next_step="Nest less deep."
        ) from None


def is_jitted(function: ast.FunctionDef) -> bool:
    """Whether a decorator is `jit`, `triton.jit`, or a call of one."""
    return any(_called(decorator) == "jit" for decorator in function.decorator_list)


@dataclass(frozen=True)
class Decoration:
    """What a `jit` decorator says against specialising, by parameter names and positions."""

    never: frozenset[str | int] = frozenset()
    not_on_alignment: frozenset[str | int] = frozenset()

    def specialises(self, position: int, name: str) -> tuple[bool, bool]:
        """Whether the compiler may be told that this parameter is 1; that it is a multiple of 16."""
        allowed = not self.never & {position, name}
        return allowed, allowed and not self.not_on_alignment & {position, name}


def jit_decoration(source: str, name: str) -> Decoration:
    """What the `jit` decorator of a top-level function says, as far as it is written in literals."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            given = {
                keyword.arg: _literals(keyword.value)
                for decorator in statement.decorator_list
                if isinstance(decorator, ast.Call) and _called(decorator) == "jit"
                for keyword in decorator.keywords
            }
            empty = frozenset[str | int]()
            return Decoration(given.get("do_not_specialize", empty), given.get("do_not_specialize_on_alignment", empty))
    return Decoration()


def _literals(node: ast.expr) -> frozenset[str | int]:
    entries = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else []
    return frozenset(e.value for e in entries if isinstance(e, ast.Constant) and isinstance(e.value, str | int))


def _called(decorator: ast.expr) -> str:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""


def _parameters(function: ast.FunctionDef) -> tuple[Parameter, ...]:
    arguments = function.args
    parameters: list[Parameter] = []
    ordered = [*arguments.posonlyargs, *arguments.args]
    with_default = {argument.arg for argument in ordered[len(ordered) - len(arguments.defaults) :]}
    with_default |= {a.arg for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None}
    for argument in (*ordered, *arguments.kwonlyargs):
        annotation = "" if argument.annotation is None else ast.unparse(argument.annotation).strip("'\"")
        last = annotation.rpartition(".")[2]
        parameters.append(
            Parameter(
                argument.arg,
                ctype=annotation,
                dtype=_SCALARS.get(last),
                constant=last == "constexpr",
                default=argument.arg in with_default,
            )
        )
    for variable in (arguments.vararg, arguments.kwarg):
        if variable is not None:
            parameters.append(Parameter(variable.arg, ctype="", problem="a variable number of arguments"))
    return tuple(parameters)
