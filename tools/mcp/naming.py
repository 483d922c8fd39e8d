"""From what a client names to ids of saved kernels: no use case meets a path or a text that came from outside."""

from __future__ import annotations

import os
import re

from ...store import kernels, tasks
from ...store.database import Store
from ...store.errors import InputError
from ...store.models import Task
from .roots import Roots

_ROLES = ("seed", "tuned", "library", "none")
_BASELINES = "Give one: an id k_..., a path, source text, or `seed`, `tuned`, `library` or `none`; one baseline a call."
_OTHER_ID = re.compile(r"[fmnrs]_[0-9a-f]{4,64}")


def admitted(store: Store, roots: Roots, named: str, task: str | None, known: Task | None = None) -> str:
    """The id of the kernel that a client means, saved; an id stays what it is. Blocks; loads the header's machinery.

    known: the task that it is expected to compute, whose files a source text does not have beside it.
    Raises InputError for a file outside the roots and for everything that is wrong with the kernel.
    """
    from ..kernels import Asked, find_kernel, remember

    if _OTHER_ID.fullmatch(named) and not os.path.exists(named):  # noqa: PTH110 -- no error for any text
        step = f'A kernel has an id k_...; get_status(id="{named}") tells which kernel that is.'
        raise InputError("this is the id of something else than a kernel", value=named, next_step=step)
    found = find_kernel(store, named, Asked(task=task, admit=roots.admit, known=known))
    remember(store, [found])
    return found.kernel.id


def task_of(store: Store, named: str | None) -> Task | None:
    """The task of a kernel that is named by its id; None for anything else."""
    kernel = kernels.get(store, named) if named is not None and named.startswith("k_") else None
    return None if kernel is None else tasks.get(store, kernel.task_id)


def admitted_baseline(store: Store, roots: Roots, named: str | None, candidate: str) -> str | None:
    """As `admitted`, of a baseline of this candidate (an id); None and the roles (`seed`, ...) stay what they are."""
    from ...bench.tasks.builtin import builtin_names
    from ..kernels import Asked, find_kernel, remember

    if named is None or named in _ROLES:
        return named
    if "\n" not in named and not named.startswith("k_") and not os.path.exists(named):  # noqa: PTH110 -- as above
        raise InputError("there is no such baseline", value=named[:200], next_step=_BASELINES)
    task = find_kernel(store, candidate).task
    known_name = task.name if task.name in builtin_names() else None
    found = find_kernel(store, named, Asked(task=known_name, admit=roots.admit, known=task))
    remember(store, [found])
    return found.kernel.id
