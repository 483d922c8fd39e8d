"""Forecasts from what the search itself has measured: the learned forecaster, learning on as the search goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import NormalDist

from ...store.database import Store
from ...store.errors import DeviceError
from ...store.models import Facts, Kernel, Task
from ...surrogate.contract import Side
from ...surrogate.learned.learner import Guess, Learner, Seen
from ...surrogate.learned.model import Model
from ..facts import facts_of
from ..learned import model_for
from ..places import place_of
from .forecasting import ForecastAsk, Outlook

HERE = "learned-here"
_Z80 = NormalDist().inv_cdf(0.9)
_NORMAL = NormalDist()


class Learning:
    """Turns asks into what a `Learner` guesses. name: of the forecaster that its outlooks are by."""

    def __init__(self, model: Model | None, facts: Callable[[Kernel], Facts | None], name: str) -> None:
        self._learner = Learner(model)
        self._facts = facts
        self._name = name

    def outlooks(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """Forecasts from all that the search had measured when it asked, which is the same for all asks."""
        if not asks:
            return []
        seen = [Seen(self._side(one.kernel), one.log2) for one in asks[0].learnt]
        guesses = self._learner.guesses(seen, [self._side(ask.kernel) for ask in asks])
        return [self._outlook(ask, guess) for ask, guess in zip(asks, guesses, strict=True)]

    def _side(self, kernel: Kernel) -> Side:
        # Facts are validated where they are made; another copy for every question would be most of the work.
        return Side.model_construct(kernel=kernel, facts=self._facts(kernel))

    def _outlook(self, ask: ForecastAsk, guess: Guess) -> Outlook:
        facts = self._facts(ask.kernel)
        if facts is not None and not facts.ok:
            why = f"It does not compile: {(facts.error or 'no message').strip()[:200]}"
            return Outlook(self._name, decision="drop", answer="slower", reason=why, final=True)
        median = guess.mean - ask.anchor_log2
        reason = f"log2 S {median:+.2f} ± {guess.sd:.2f} from {len(ask.learnt)} measured here."
        return Outlook(
            forecaster=self._name,
            p_correct=guess.p_correct,
            log2_median=median,
            log2_p10=median - _Z80 * guess.sd,
            log2_p90=median + _Z80 * guess.sd,
            p_faster=_NORMAL.cdf(median / max(guess.sd, 1e-6)),
            reason=reason,
        )


class LearnedHere:
    """`learned-here`: the learned forecaster, told nothing but what its own search measures. For comparisons: searches
    that share a store do not learn from each other. What compiles is measured or waits; nothing is promised."""

    name = HERE
    inline = False
    costs = False
    trained_on: frozenset[str] = frozenset()
    renews = HERE

    def __init__(self, store: Store, task: Task, device: str, kernel: Kernel) -> None:
        """kernel: of the language that the search is in."""
        place = place_of(device, store)
        self._learning = Learning(
            model_for(store, [kernel.language], place.kind), compiled_facts(task, place.arch), self.name
        )

    def outlooks(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """Forecasts from the search's own measurements."""
        return self._learning.outlooks(asks)

    def renewed(self, asks: Sequence[ForecastAsk]) -> list[Outlook]:
        """The same, from what is measured by now."""
        return self._learning.outlooks(asks)


def compiled_facts(task: Task, arch: str | None) -> Callable[[Kernel], Facts | None]:
    """Facts by compiling, kept in memory; None where this machine has no compiler for a kernel."""
    kept: dict[str, Facts | None] = {}

    def facts(kernel: Kernel) -> Facts | None:
        if kernel.id not in kept:
            try:
                kept[kernel.id] = facts_of(kernel, task, arch)[0]
            except DeviceError:
                kept[kernel.id] = None
        return kept[kernel.id]

    return facts
