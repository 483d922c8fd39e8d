"""Kernels in the store. A kernel's id is the hash of its normalised whole, so saving one twice keeps the first row."""

from __future__ import annotations

from .database import Store
from .errors import InputError
from .models import Kernel
from .rows import Table

TABLE = Table("kernels", Kernel, ("name", "language", "task_id", "source_id", "toolchain", "source"))

_SHORTEST_PREFIX = len("k_") + 4


def save(store: Store, kernel: Kernel) -> bool:
    """Save a kernel, whose task must be there already; whether it was new.

    Saving again is no error. What the id does not cover (name, comments, layout) stays as it was saved first.
    """
    with store.write() as db:
        return TABLE.insert(db, kernel, keep_first=True)


def get(store: Store, kernel_id: str) -> Kernel | None:
    """The kernel with that id, or None."""
    return TABLE.get(store, kernel_id)


def resolve(store: Store, prefix: str) -> Kernel:
    """The one kernel whose id is or begins with `prefix` (`k_` and at least 4 digits).

    Raises InputError where none or several do, naming some.
    """
    exact = get(store, prefix)
    if exact is not None:
        return exact
    found: list[Kernel] = []
    if len(prefix) >= _SHORTEST_PREFIX:
        found = TABLE.find(store, ["id >= ?", "id < ?"], [prefix, prefix + "\U0010ffff"], order="id", limit=4)
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(
            "The store has no kernel with that id",
            value=prefix,
            next_step=f"Give the kernel's file, or at least {_SHORTEST_PREFIX} characters of an id that "
            "`kforecast status` lists.",
        )
    raise InputError(
        "Several kernels have ids that begin so",
        value=prefix,
        next_step=f"Give more of the id: {', '.join(kernel.id for kernel in found[:3])}…",
    )


def find(store: Store, *, task_id: str | None = None, limit: int | None = None) -> list[Kernel]:
    """Kernels, of one task if given, saved last first."""
    where, parameters = ([], []) if task_id is None else (["task_id = ?"], [task_id])
    return TABLE.find(store, where, parameters, order="seq DESC", limit=limit)
