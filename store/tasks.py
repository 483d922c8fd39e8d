"""Tasks in the store. A task's id is the hash of its content, so a changed task is another row of the same name."""

from __future__ import annotations

from .database import Store
from .models import Task
from .rows import Table

TABLE = Table("tasks", Task, ("name", "title"))


def save(store: Store, task: Task) -> bool:
    """Save a task; whether it was new. Saving again is no error."""
    with store.write() as db:
        return TABLE.insert(db, task, keep_first=True)


def get(store: Store, task_id: str) -> Task | None:
    """The task with that id, or None."""
    return TABLE.get(store, task_id)


def latest(store: Store, name: str) -> Task | None:
    """The task of that name saved last, or None."""
    found = TABLE.find(store, ["name = ?"], [name], order="seq DESC", limit=1)
    return found[0] if found else None


def find(store: Store, *, name: str | None = None, limit: int | None = None) -> list[Task]:
    """Tasks by name, each name's newest first."""
    where, parameters = ([], []) if name is None else (["name = ?"], [name])
    return TABLE.find(store, where, parameters, order="name, seq DESC", limit=limit)


def names(store: Store) -> list[str]:
    """The names of all tasks, in order."""
    return [str(name) for (name,) in store.read("SELECT DISTINCT name FROM tasks ORDER BY name")]
