"""What answers are narrowed down to: a name that nobody has is said, instead of an empty answer."""

from __future__ import annotations

from ..bench.tasks.nearest import nearest_text
from ..store import tasks
from ..store.database import Store
from ..store.errors import InputError


def check_task(store: Store, task: str | None) -> None:
    """Raises InputError for what is neither the name nor the id of a built-in task or of one in the store."""
    if task is None:
        return
    from ..bench.tasks.builtin import builtin_names  # imports numpy, which no starting server needs

    if task in builtin_names() or tasks.get(store, task) is not None:
        return
    known = tasks.names(store)
    if task not in known:
        step = nearest_text(task, {*builtin_names(), *known})
        raise InputError("there is no such task, built in or in the store", value=task, next_step=step)
