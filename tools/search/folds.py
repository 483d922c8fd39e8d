"""`learned-fold`: for replays, a learned forecaster trained on the pool's other tasks, the replayed one's family left
out, that learns from what the search itself has measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from ...store.errors import InputError
from ...store.models import Task
from ...surrogate.learned.model import Model
from ...surrogate.learned.train import train
from ..datasets import sample_of
from ..eval_pairs import _FAMILIES
from .forecasting import ForecastAsk, Outlook
from .learning import Learning
from .replay import Pool, pool_of

NAME = "learned-fold"


def family_of(task_name: str) -> frozenset[str]:
    """The tasks that are left out together: what is learnt of one tells much of the others."""
    return frozenset(next((tasks for tasks in _FAMILIES.values() if task_name in tasks), (task_name,)))


class FoldForecaster:
    """The learned forecaster of one fold, from structure, recorded compile facts and this search's own measurements.
    What compiles is measured or waits; nothing is promised."""

    name = NAME
    inline = True
    costs = False
    renews = NAME

    def __init__(self, pool: Pool, task: Task) -> None:
        self._learning = _fold_learning(str(pool.path), pool.path.stat().st_mtime_ns, task.name)
        left_out = family_of(task.name)
        self.trained_on = frozenset(one.name for one in pool.tasks.values()) - left_out

    def outlooks(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """Forecasts from the fold's model and the search's measurements."""
        return self._learning.outlooks(asks)

    def renewed(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """The same, from what is measured by now."""
        return self._learning.outlooks(asks)


@lru_cache(maxsize=16)
def _fold_learning(path: str, moment: int, task_name: str) -> Learning:
    """What searches of one fold share: the model, and how alike the pool's kernels are. Nothing of what they measure
    stays in it.
    """
    pool = pool_of(f"replay:{path}")
    facts = {id_: one.measurement.facts for id_, one in pool.recorded.items()}
    return Learning(_fold_model(path, moment, task_name), lambda kernel: facts.get(kernel.id), NAME)


@lru_cache(maxsize=32)
def _fold_model(path: str, moment: int, task_name: str) -> Model:
    """The model of a fold. Raises InputError where the rest of the pool is too small to train on."""
    del moment  # the key that makes a changed pool be trained on anew
    pool = pool_of(f"replay:{path}")
    left_out = family_of(task_name)
    samples = [
        sample_of(one.kernel, one.measurement)
        for one in pool.recorded.values()
        if pool.tasks[one.kernel.task_id].name not in left_out
    ]
    timed = [one for one in samples if one.time_us is not None and math.isfinite(one.time_us)]
    if not timed:
        step = "Replay a pool of several tasks, or use --forecaster base-rate."
        raise InputError("the pool holds no other family to train a fold on", value=task_name, next_step=step)
    return train(samples)
