"""The built-in tasks: their names, their tasks, their kernels."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

from ...store.errors import InputError
from ...store.models import Task
from .load import load_task_file
from .nearest import nearest_text

ShippedLanguage = Literal["c", "cuda", "torch"]
ShippedRole = Literal["seed", "tuned", "library"]
SUFFIX: dict[ShippedLanguage, str] = {"c": ".c", "cuda": ".cu", "torch": ".py"}


def _root() -> Path:
    # Wheels of this package are always unpacked: compilers and `#include` need real files.
    return Path(str(files(__package__))) / "builtin"


@cache
def builtin_names() -> tuple[str, ...]:
    """The built-in tasks' names, sorted."""
    return tuple(sorted(folder.parent.name for folder in _root().glob("*/task.toml")))


@cache
def builtin_task(name: str) -> Task:
    """The built-in task of that name. Raises InputError naming the nearest ones."""
    if name not in builtin_names():
        raise InputError(
            "there is no built-in task of this name", value=name, next_step=nearest_text(name, builtin_names())
        )
    return load_task_file(_root() / name / "task.toml")


def builtin_kernel(name: str, language: ShippedLanguage, role: ShippedRole) -> Path | None:
    """The file of a built-in kernel, or None where the task has none in that role and language."""
    builtin_task(name)
    path = _root() / name / f"{role}{SUFFIX[language]}"
    return path if path.is_file() else None
