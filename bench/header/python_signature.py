"""Entry points of Python kernel files, from their syntax tree; nothing of them is run."""

from __future__ import annotations

import ast

from .signature import Parameter, Signature


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


def is_jitted(function: ast.FunctionDef) -> bool:
    """Whether a decorator is `jit`, `triton.jit`, or a call of one."""
    for decorator in function.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
        if name == "jit":
            return True
    return False


def _parameters(function: ast.FunctionDef) -> tuple[Parameter, ...]:
    arguments = function.args
    parameters: list[Parameter] = []
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        annotation = "" if argument.annotation is None else ast.unparse(argument.annotation)
        constant = annotation.rpartition(".")[2] == "constexpr"
        parameters.append(Parameter(argument.arg, ctype=annotation, constant=constant))
    for variable in (arguments.vararg, arguments.kwarg):
        if variable is not None:
            parameters.append(Parameter(variable.arg, ctype="", problem="a variable number of arguments"))
    return tuple(parameters)
