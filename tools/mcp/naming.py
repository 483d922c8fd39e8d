"""From what a client names to ids of saved kernels: no use case meets a path or a text that came from outside."""

from __future__ import annotations

from collections.abc import Sequence

from ...store.database import Store
from .roots import Roots

_ROLES = ("seed", "tuned", "library", "none")


def admitted(store: Store, roots: Roots, named: str, task: str | None) -> str:
    """The id of the kernel that a client means, saved; an id stays what it is. Blocks; loads the header's machinery.

    Raises InputError for a file outside the roots and for everything that is wrong with the kernel.
    """
    from ..kernels import Asked, find_kernel, remember

    found = find_kernel(store, named, Asked(task=task, admit=roots.admit))
    remember(store, [found])
    return found.kernel.id


def admitted_all(store: Store, roots: Roots, named: Sequence[str], task: str | None) -> list[str]:
    """As `admitted`, of several."""
    return [admitted(store, roots, one, task) for one in named]


def admitted_baseline(store: Store, roots: Roots, named: str | None, candidate: str) -> str | None:
    """As `admitted`, of a baseline of this candidate (an id); None and the roles (`seed`, ...) stay what they are."""
    from ...bench.tasks.builtin import builtin_names
    from ..kernels import Asked, find_kernel, remember

    if named is None or named in _ROLES:
        return named
    task = find_kernel(store, candidate).task.name
    found = find_kernel(store, named, Asked(task=task if task in builtin_names() else None, admit=roots.admit))
    remember(store, [found])
    return found.kernel.id
