"""Findings in Python sources (PyTorch, Triton), over their syntax tree: comments and texts say nothing."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from ...store.models import Task
from .label import Label
from .precision import low_precision
from .python_calls import constant, dotted, is_library, of_call

_LIBRARIES = frozenset(
    {
        "flash_attn",
        "flashinfer",
        "xformers",
        "apex",
        "cutlass",
        "deep_gemm",
        "transformer_engine",
        "liger_kernel",
        "bitsandbytes",
    }
)
_RUN_TIME_MODULES = frozenset({"base64", "marshal", "pickle", "zlib", "ctypes", "cffi", "importlib", "codecs"})
_LEAST = 32


def of_python(source: str, task: Task | None) -> list[Label]:
    """Every finding in one source; none in what is no Python, which whoever loads it says."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's text, which whoever runs it will hear
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found: list[Label] = []
    for node in ast.walk(tree):
        found += _of_node(node, task)
    return found + list(_kept(tree))


def _of_node(node: ast.AST, task: Task | None) -> Iterator[Label]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from _of_import(node)
    elif isinstance(node, ast.Call):
        yield from of_call(node, task)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield Label("library", "multiplies with @", node.lineno)
    elif isinstance(node, ast.Try):
        yield from _of_try(node)
    elif isinstance(node, ast.Compare):
        yield from _of_compare(node, task)
    elif isinstance(node, ast.Assign):
        yield from _of_setting(node, task)


def _of_import(node: ast.Import | ast.ImportFrom) -> Iterator[Label]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    for name in names:
        root = name.partition(".")[0]
        if root in _LIBRARIES:
            yield Label("library", f"imports {root}", node.lineno)
        elif root in ("threading", "multiprocessing", "concurrent", "asyncio"):
            yield Label("threads", f"imports {name}", node.lineno)
        elif root in _RUN_TIME_MODULES:
            yield Label("run-time-code", f"imports {name}", node.lineno)


def _of_setting(node: ast.Assign, task: Task | None) -> Iterator[Label]:
    for target in node.targets:
        if dotted(target).endswith(".allow_tf32") and constant(node.value) is True:
            yield from low_precision("tf32", "products may be", task, node.lineno)


def _of_try(node: ast.Try) -> Iterator[Label]:
    """Handlers that go on by another way of computing. One that raises, or that guards an import, is none."""
    if all(isinstance(part, ast.Import | ast.ImportFrom) for part in node.body):
        return
    for handler in node.handlers:
        parts = [part for statement in handler.body for part in ast.walk(statement)]
        if any(isinstance(part, ast.Raise) for part in parts):
            continue
        if any(isinstance(part, ast.Return) or (isinstance(part, ast.expr) and is_library(part)) for part in parts):
            yield Label("fallback", "computes another way where the first one fails", handler.lineno)


def _of_compare(node: ast.Compare, task: Task | None) -> Iterator[Label]:
    if not all(isinstance(operator, ast.Eq | ast.NotEq | ast.In) for operator in node.ops):
        return
    sizes = set(task.size_names) if task is not None else set()
    sides = [node.left, *node.comparators]
    if any(_is_size(side, sizes) for side in sides) and any(_large(side) for side in sides):
        yield Label("specialised", "compares a size with a number", node.lineno)


def _is_size(node: ast.expr, sizes: set[str]) -> bool:
    if isinstance(node, ast.Tuple):
        return any(_is_size(part, sizes) for part in node.elts)
    if isinstance(node, ast.Name):
        return node.id in sizes or node.id.endswith("shape")
    if isinstance(node, ast.Subscript):
        return dotted(node.value).endswith("shape")
    if isinstance(node, ast.Call):
        return dotted(node.func).rpartition(".")[2] in ("size", "numel")
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def _large(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(_large(part) for part in node.elts)
    value = constant(node)
    return isinstance(value, int) and not isinstance(value, bool) and value >= _LEAST


def _kept(tree: ast.Module) -> Iterator[Label]:
    """What outlives a call: globals that functions assign, tables at module level that they fill, caches."""
    tables = {name for statement in tree.body for name in _tables(statement)}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in function.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if dotted(called).rpartition(".")[2] in ("lru_cache", "cache"):
                yield Label("stateful", f"keeps what {function.name} answered", function.lineno)
        for node in ast.walk(function):
            kept = _written(node, function.name, tables)
            if kept:
                yield Label("stateful", f"keeps {kept} between calls", function.lineno)


def _tables(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement of the module gives an empty or filled dict, list or set."""
    if isinstance(statement, ast.Assign):
        targets, value = statement.targets, statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets, value = [statement.target], statement.value
    else:
        return
    if isinstance(value, ast.Call):
        if dotted(value.func).rpartition(".")[2] not in ("dict", "list", "set", "defaultdict"):
            return
    elif not isinstance(value, ast.Dict | ast.List | ast.Set):
        return
    yield from (target.id for target in targets if isinstance(target, ast.Name))


def _written(node: ast.AST, function: str, tables: set[str]) -> str | None:
    """What a node of a function writes that outlives the call."""
    if isinstance(node, ast.Global):
        return ", ".join(node.names)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and dotted(node.value) in tables:
        return f"entries of {dotted(node.value)}"
    of_self = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and dotted(node.value) == "self"
    if of_self and function in ("forward", "__call__"):
        return f"self.{node.attr}"  # type: ignore[attr-defined]  # of_self says what it is
    return None
