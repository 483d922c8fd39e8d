"""`learned`: the trained arrays as a forecaster; outside what they were trained for it steps aside."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..contract import Answer, Query, Reply, Sibling, Side
from ..learned.features import vector
from ..learned.likeness import Alike, compared
from ..learned.model import Difference, Model
from .base_rate import BaseRate, TaskRate
from .protocol import Backend

NAME = "learned"


class Learned:
    """The learned forecaster. model: None where none is shipped or trained yet."""

    name = NAME

    def __init__(self, model: Model | None, aside: Reply | Sequence[Sibling]) -> None:
        """aside: what is told where it steps aside, the same reply for all or the rate among measured kernels."""
        self._model = model
        self._aside: Backend
        if isinstance(aside, Reply):
            self._aside = BaseRate(aside, stands_in_for=NAME)
        else:
            self._aside = TaskRate(aside, stands_in_for=NAME)

    def forecast(self, query: Query) -> Answer:
        """One reply a candidate, or base rates with `not_trained` for a language or device kind it never saw."""
        model = self._model
        sides = [query.baseline, *query.candidates]
        if model is None or any((side.kernel.language, query.device_kind) not in model.trained_for for side in sides):
            return self._aside.forecast(query)
        return Answer(
            forecaster=NAME,
            replies=tuple(self._reply(model, query, candidate) for candidate in query.candidates),
            usd=0.0,
            tokens=0,
        )

    def _reply(self, model: Model, query: Query, candidate: Side) -> Reply:
        seen = vector(candidate.kernel, candidate.facts)
        compiles = candidate.facts is None or candidate.facts.ok
        found = _difference(model, query, candidate)
        count = len(query.siblings)
        return Reply(
            p_correct=model.p_correct(seen) if compiles else 0.0,
            p_bins=found.p_bins,
            reasoning=f"log2 S {found.mean:+.2f} ± {found.sd:.2f} from {count} siblings and {model.kernels} kernels",
        )


def _difference(model: Model, query: Query, candidate: Side) -> Difference:
    """log2 S; exactly 0 for the same program."""
    if candidate.kernel.source_id == query.baseline.kernel.source_id:
        return Difference(0.0, (0.0,), (1.0,))
    siblings = [sibling for sibling in query.siblings if sibling.verdict == "ok" and sibling.time_us]
    sides = [(side.kernel, side.facts) for side in (query.baseline, candidate)]
    sides += [(sibling.kernel, sibling.facts) for sibling in siblings]
    vectors = np.array([vector(kernel, facts) for kernel, facts in sides])
    alike = Alike(vectors, compared([kernel for kernel, _ in sides]))
    known = [None if query.baseline_us is None else math.log2(query.baseline_us), None]
    known += [math.log2(sibling.time_us) for sibling in siblings if sibling.time_us]
    return model.difference(alike, known)
