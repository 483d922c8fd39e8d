"""KernelBench problems: a Python file with `Model`, `get_inputs` and `get_init_inputs`, taken as it is.

Submissions define `ModelNew`. The format is that of github.com/ScalingIntelligence/KernelBench.
"""

from __future__ import annotations

import ast

from ...store.errors import InputError
from ...store.models import Case, Problem, Task

PROBLEM_FILE = "problem.py"
REFERENCE_ENTRY = "Model"
CANDIDATE_ENTRY = "ModelNew"
_NEEDED = {REFERENCE_ENTRY, "get_inputs", "get_init_inputs"}


def top_level_names(source: str) -> set[str]:
    """The functions and classes that a Python source defines at its top level; none where its syntax is wrong."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()  # whoever compiles it says where
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in body:
        if isinstance(node, ast.Assign):
            defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            defined |= {alias.asname or alias.name for alias in node.names}
    return defined


def is_kernelbench(source: str) -> bool:
    """Whether a Python source is a KernelBench problem."""
    return top_level_names(source) >= _NEEDED


def kernelbench_task(source: str, name: str) -> Task:
    """The task of a problem's source: one case, whose inputs are the problem's own. Raises InputError for others."""
    missing = sorted(_NEEDED - top_level_names(source))
    if missing:
        raise InputError(
            "this Python file is no KernelBench problem",
            value=f"{name} lacks {', '.join(missing)}",
            next_step="Give a file that defines Model, get_inputs and get_init_inputs.",
        )
    case = Case(sizes={})
    return Task(
        name=name,
        tensors=(),
        reference=REFERENCE_ENTRY,
        checked=(case,),
        timed={"any": (case,)},
        problem=Problem(format="kernelbench", files={PROBLEM_FILE: source}),
    )
