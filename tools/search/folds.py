"""`learned-fold`: for replays, a learned forecaster trained on the pool's other tasks, the replayed one's family left
out, that learns from what the search itself has measured."""

from __future__ import annotations

import math
from functools import lru_cache

from ...store.errors import InputError
from ...store.models import Task
from ...surrogate.backends.learned import Learned
from ...surrogate.calibration.fit import Calibration
from ...surrogate.calibration.promise import learn
from ...surrogate.contract import Query, Side
from ...surrogate.decision import decide
from ...surrogate.learned.model import Model
from ...surrogate.learned.train import train
from ...surrogate.metrics.controls import base_rate
from ...surrogate.siblings import choose
from ..datasets import sample_of
from ..eval_pairs import _FAMILIES
from .forecasting import ForecastAsk, Outlook
from .replay import Pool, pool_of

NAME = "learned-fold"
_SIBLINGS = 24


def family_of(task_name: str) -> frozenset[str]:
    """The tasks that are left out together: what is learnt of one tells much of the others."""
    return frozenset(next((tasks for tasks in _FAMILIES.values() if task_name in tasks), (task_name,)))


class FoldForecaster:
    """The learned forecaster of one fold. Decisions only drop what is nearly hopeless, since nothing is calibrated."""

    name = NAME
    inline = True
    costs = False
    wants_siblings = True

    def __init__(self, pool: Pool, task: Task) -> None:
        self._task = task
        self._backend = Learned(_fold_model(str(pool.path), pool.path.stat().st_mtime_ns, task.name), base_rate([]))
        self._facts = {id_: one.measurement.facts for id_, one in pool.recorded.items()}
        left_out = family_of(task.name)
        self.trained_on = frozenset(one.name for one in pool.tasks.values()) - left_out

    def outlook(self, ask: ForecastAsk) -> Outlook:
        """The forecast, from structure, recorded compile facts and this search's own measurements."""
        kind = "cpu" if ask.kernel.language == "c" else "cuda"
        nearest = choose(ask.siblings, ask.anchor, [ask.kernel], count=_SIBLINGS, far=4)
        query = Query(
            task=self._task,
            device=ask.device,
            device_kind=kind,
            baseline=Side(kernel=ask.anchor, facts=self._facts.get(ask.anchor.id)),
            baseline_us=ask.anchor_us,
            candidates=(Side(kernel=ask.kernel, facts=self._facts.get(ask.kernel.id)),),
            siblings=nearest,
        )
        answer = self._backend.forecast(query)
        reply = answer.replies[0]
        decided = decide(
            reply,
            calibration=Calibration(),
            promise=learn([], 0.1),
            facts=query.candidates[0].facts,
            not_trained=answer.not_trained,
        )
        if reply is None:
            return Outlook(self.name, decision=decided.kind, reason=decided.reason)
        return Outlook(
            forecaster=self.name,
            p_correct=reply.p_correct,
            log2_median=reply.quantile(0.5),
            log2_p10=reply.quantile(0.1),
            log2_p90=reply.quantile(0.9),
            p_faster=reply.p_faster,
            decision=decided.kind,
            answer=decided.answer,
            reason=decided.reason,
            final=decided.kind == "drop",
        )


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
