"""Runs of programs: what ran on a device without a task, and so without a verdict."""

from __future__ import annotations

from .database import Store
from .models import ProgramRun
from .rows import Table

TABLE = Table(
    "program_runs",
    ProgramRun,
    ("name", "device", "device_id", "outcome", "exit_code", "kernel_us", "wall_s", "source_id", "source"),
)


def save(store: Store, run: ProgramRun) -> None:
    """Save a run."""
    with store.write() as db:
        TABLE.insert(db, run)


def get(store: Store, id_: str) -> ProgramRun | None:
    """The run with that id, or None."""
    return TABLE.get(store, id_)


def recent(store: Store, limit: int = 20) -> list[ProgramRun]:
    """The last runs, newest first."""
    return TABLE.find(store, order="created_at DESC, seq DESC", limit=limit)
