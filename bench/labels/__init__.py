"""Labels: what a kernel's source and its compiled code give away about how it computes. Telemetry, never a verdict."""

from __future__ import annotations

from dataclasses import replace

from ...store.models import Facts, Kernel, Language, Task
from .c_source import FAST_OPTION, of_c
from .compiled import of_facts
from .label import POLICY, Label, in_order, policy_names
from .python_source import of_python

__all__ = ["POLICY", "Label", "kernel_labels", "labels", "policy_names"]


def labels(source: str, language: Language, facts: Facts | None = None, task: Task | None = None) -> tuple[Label, ...]:
    """The findings about one source text, policy labels first. Pure: reads nothing, compiles nothing, never raises.

    facts: of the compiled kernel, where there are any. task: whose precision policy and sizes count; None: what depends
    on them is not found.
    """
    found = of_c(source, language, task) if language in ("c", "cuda") else of_python(source, task)
    return in_order([*found, *(of_facts(facts, task) if facts is not None else ())])


def kernel_labels(kernel: Kernel, facts: Facts | None = None, task: Task | None = None) -> tuple[Label, ...]:
    """As `labels`, of a kernel with its own headers; a finding in a header names it."""
    found = list(labels(kernel.source, kernel.language, facts, task))
    found += [Label("fast-math", f"compiled with {option}") for option in kernel.options if FAST_OPTION.search(option)]
    for name, text in kernel.includes.items():
        found += [replace(one, finding=f"{one.finding} ({name})") for one in labels(text, kernel.language, None, task)]
    return in_order(found)
