"""`atlas`: candidates out of a recorded pool. For a parent its recorded children first, then the nearest by source."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ....store.models import Kernel, Task
from ....surrogate.structure import similarity
from ..replay import Pool
from .lists import ListGenerator, shuffled
from .protocol import Proposal


class AtlasGenerator(ListGenerator):
    """Proposes from a pool, and nothing else."""

    name = "atlas"

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self._pool = pool
        self._near = cache(self._similarity)

    def candidates(self, parent: Kernel, task: Task, seed: int) -> Iterator[Proposal]:
        """All recorded kernels of the parent's task; equally near ones in an order that follows from the seed."""
        others = [one.kernel for one in self._pool.of_task(parent.task_id) if one.kernel.id != parent.id]
        ordered = shuffled(others, f"{seed}\natlas\n{parent.source_id}")
        known = self._pool.parents

        def far(kernel: Kernel) -> tuple[bool, float]:
            return known.get(kernel.id) != parent.id, -self._near(*sorted((parent.id, kernel.id)))

        for kernel in sorted(ordered, key=far):
            tunables = " ".join(f"{name}={value}" for name, value in kernel.tunables.items())
            idea, tag = self._pool.ideas.get(kernel.id, ("", ""))
            yield Proposal(kernel, idea or f"{kernel.name} {tunables}".strip(), tag or f"atlas:{kernel.name}")

    def _similarity(self, one: str, other: str) -> float:
        recorded = self._pool.recorded
        return round(similarity(recorded[one].kernel, recorded[other].kernel), 3)
