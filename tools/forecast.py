"""The use case `forecast`: what is known goes to a forecaster, what it says is calibrated, decided on, kept."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from ..store import forecasts, measurements
from ..store.database import Store
from ..store.errors import DeviceError, InputError, KforecastError, UnsupportedError
from ..store.models import Facts, Forecast, Kernel, Task
from ..surrogate.backends.agent import AgentBackend
from ..surrogate.backends.protocol import Backend
from ..surrogate.brief import brief as brief_text
from ..surrogate.contract import MOST_CANDIDATES, Answer, Query, Reply, Sibling, Side, forecast_of
from ..surrogate.decision import Decided, decide
from ..surrogate.siblings import choose
from .backends import choose_backend
from .config import Config, load_config
from .facts import facts_of
from .forecast_results import ForecastResult, forecast_result
from .hits import TOLD
from .kernels import Asked, Named, device_for, find_baseline, find_kernel, remember
from .measured import RIGHT_AGAIN, Told, found_right, told_of
from .neighbours import MOST_SIBLINGS, Known, known_of, pool_of, with_facts
from .own import Owned, OwnGiven, owned_many
from .pairs import Standing, newest_agent, standing_of
from .places import Place, place_of

Detail = Literal["concise", "brief", "full"]
AGENT = "agent:"
_NO_FLOOR = "no floor: the work depends on the data"
_CACHED = 1024
_facts: dict[tuple[str, str | None], Facts] = {}


def forecast(
    candidates: str | Sequence[str],
    *,
    baseline: str | None = None,
    task: str | None = None,
    device: str | None = None,
    own: OwnGiven | Sequence[OwnGiven] | None = None,
    alpha: float | None = None,
    detail: Detail = "concise",
    backend: str | None = None,
    consent: bool = False,
    max_usd: float | None = None,
    asked: Asked | None = None,
    store: Store | None = None,
) -> ForecastResult | list[ForecastResult]:
    """Forecast one candidate (one result) or up to 16 (a list, in their order) against a baseline.

    candidates, baseline: a path, an id `k_…`, or source text (it holds a newline); the baseline also `seed`, `tuned`,
    `library`; None is the task's seed kernel. device: None lets the language decide. own: the caller's own
    {p_correct, p_bins[8], forecaster}, one a candidate, which then is the forecast. alpha: the share of trusted answers
    that may be wrong; None: the configured one. detail: `brief` adds what is known as text, `full` the sources too.
    backend: None takes the best there is (see `backends.choose_backend`). consent: the user agrees that sources go to
    a hosted model. max_usd: what all processes together may spend on models today; None: the configured amount.
    asked: what the command line adds to the kernels' headers. store: None opens the user's own.

    Raises InputError for what is wrong with a candidate, the baseline or `own` (refused once the pair is measured),
    UnsupportedError, StoreError; DeviceError (ForecasterError) where the forecaster cannot be asked.
    """
    single = isinstance(candidates, str)
    named = [candidates] if isinstance(candidates, str) else list(candidates)
    results = forecast_many(
        named,
        baseline=baseline,
        task=task,
        device=device,
        own=[own] if isinstance(own, Mapping) else own,
        alpha=alpha,
        detail=detail,
        backend=backend,
        consent=consent,
        max_usd=max_usd,
        asked=asked,
        store=store,
    )
    kept = []
    for result in results:
        if isinstance(result, KforecastError):
            raise result
        kept.append(result)
    return kept[0] if single else kept


def forecast_many(
    candidates: Sequence[str],
    *,
    baseline: str | None = None,
    task: str | None = None,
    device: str | None = None,
    own: Sequence[OwnGiven] | None = None,
    alpha: float | None = None,
    detail: Detail = "concise",
    backend: str | None = None,
    consent: bool = False,
    max_usd: float | None = None,
    asked: Asked | None = None,
    store: Store | None = None,
) -> list[ForecastResult | KforecastError]:
    """As `forecast`, but what is wrong with one candidate stands in its place and the others go on."""
    owned = _check(candidates, own, alpha, detail, backend)
    config = load_config()
    if max_usd is not None:
        config = replace(config, max_usd=max_usd)
    opened = store or Store.open()
    try:
        asking = _Asking(opened, config, config.alpha if alpha is None else alpha, detail, backend, consent)
        results: dict[int, ForecastResult | KforecastError] = {}
        groups: dict[tuple[str, str, str, str], list[_Pair]] = {}
        for index, named in enumerate(candidates):
            try:
                pair = _pair(opened, index, named, baseline, device, owned[index], asked or Asked(task))
                asking.check(pair)
                groups.setdefault(pair.group, []).append(pair)
            except InputError as error:
                results[index] = error
        for pairs in groups.values():
            results |= asking.forecast(pairs)
        return [results[index] for index in range(len(candidates))]
    finally:
        if store is None:
            opened.close()


@dataclass(frozen=True)
class _Pair:
    """A candidate with its baseline, resolved and saved."""

    index: int
    candidate: Named
    baseline: Named
    because: str
    device: str
    own: Owned | None

    @property
    def group(self) -> tuple[str, str, str, str]:
        """Pairs of one group go to the forecaster together."""
        forecaster = "" if self.own is None else self.own.forecaster
        return self.candidate.task.id, self.baseline.kernel.id, self.device, forecaster


def _check(
    candidates: Sequence[str], own: Sequence[OwnGiven] | None, alpha: float | None, detail: str, backend: str | None
) -> list[Owned | None]:
    if not 1 <= len(candidates) <= MOST_CANDIDATES:
        step = f"Give 1 to {MOST_CANDIDATES} candidates."
        raise InputError("wrong number of candidates", value=len(candidates), next_step=step)
    if alpha is not None and not 0 < alpha < 0.5:
        raise InputError("alpha must lie between 0 and 0.5", value=alpha, next_step="The default is 0.1.")
    if detail not in ("concise", "brief", "full"):
        raise InputError("there is no such detail", value=detail, next_step="Use concise, brief or full.")
    if own is not None and backend is not None:
        step = "Leave the backend out: with own probabilities the caller is the forecaster."
        raise InputError("own probabilities and a backend were both given", value=backend, next_step=step)
    return owned_many(own, len(candidates))


def _pair(
    store: Store, index: int, named: str, baseline: str | None, device: str | None, own: Owned | None, asked: Asked
) -> _Pair:
    candidate = find_kernel(store, named, asked)
    where = device_for(candidate.kernel, device)
    against, because = find_baseline(store, baseline, candidate)
    if against is None:
        step = "Give a baseline: a file, an id, or `tuned`."
        raise InputError("a forecast needs a baseline", value=candidate.called, next_step=f"{because}. {step}")
    remember(store, [candidate, against])
    return _Pair(index, candidate, against, because, where, own)


@dataclass(frozen=True)
class _Said:
    """What is said of one pair: the decision, the probabilities, calibrated, and the forecast that was kept, if any."""

    decided: Decided
    calibrated: Reply | None
    made: Forecast | None = None
    audited: bool = False


@dataclass
class _Asking:
    """One call of `forecast`: what all its groups share."""

    store: Store
    config: Config
    alpha: float
    detail: Detail
    backend: str | None
    consent: bool
    _places: dict[str, Place] = field(default_factory=dict)
    _known: dict[tuple[str, str, str], Known] = field(default_factory=dict)

    def check(self, pair: _Pair) -> None:
        """Refuse the caller's own probabilities for a pair whose S can be told already."""
        if pair.own is None:
            return
        known, kernel, baseline = self._known_of(pair), pair.candidate.kernel.id, pair.baseline.kernel.id
        place = self._place(pair)
        seen = measurements.find(  # quarantined ones too: whoever asks may have read them
            self.store, kernel=kernel, baseline=baseline, device=place.device_id or place.device, limit=1
        )
        if seen or known.can_be_told(kernel, baseline):
            raise InputError(
                "the pair is measured already, so a forecast of it proves nothing",
                value=f"{kernel} in {seen[0].id}" if seen else kernel,
                next_step="Use what was measured; forecast candidates that were not.",
            )

    def forecast(self, pairs: Sequence[_Pair]) -> dict[int, ForecastResult | KforecastError]:
        """The results of one group by index."""
        first = pairs[0]
        place, known = self._place(first), self._known_of(first)
        baseline = _side(first.baseline, place)
        pool = pool_of(self.store, known, baseline.kernel.id)
        sides = [_side(pair.candidate, place, pool) for pair in pairs]
        backend, hint = self._backend(pairs, place, pool)
        siblings = choose(pool, baseline.kernel, [side.kernel for side in sides], count=MOST_SIBLINGS)
        query = Query(
            task=first.candidate.task,
            device=place.device,
            device_kind=place.kind,
            device_line=place.line,
            baseline=baseline,
            baseline_us=known.baseline_us,
            floor_us=known.floor_us,
            no_floor=_NO_FLOOR if first.candidate.task.data_dependent else place.no_floor,
            candidates=tuple(sides),
            siblings=with_facts(self.store, siblings, known),
            record=self._record(backend.name, place),
        )
        told = [self._told(pair, side, known) for pair, side in zip(pairs, sides, strict=True)]
        # What is measured need not be asked, which may cost money.
        left = [number for number, one in enumerate(told) if one is None]
        asked = query.model_copy(update={"candidates": tuple(sides[number] for number in left)})
        nobody = Answer(forecaster=backend.name, replies=())
        answer = _as_found(backend.forecast(asked), asked, known) if left else nobody
        standing = standing_of(self.store, answer.forecaster, place, self.alpha)  # another's, where one stepped aside
        text = self._brief(query)
        results: dict[int, ForecastResult | KforecastError] = {}
        for number, (pair, side) in enumerate(zip(pairs, sides, strict=True)):
            one = told[number]
            said = (
                self._forecast(asked, left.index(number), answer, standing)
                if one is None
                else _Said(one.decided, one.reply)
            )
            result = forecast_result(
                called=Path(pair.candidate.called).name,
                against=Path(pair.baseline.called).name,
                candidate_id=side.kernel.id,
                baseline_id=baseline.kernel.id,
                because=pair.because,
                backend=answer.forecaster,
                forecast=said.made,
                reply=said.calibrated,
                decided=said.decided,
                audited=said.audited,
                standing=standing,
                not_trained=answer.not_trained,
                facts=side.facts,
                already_measured=known.of_pair(side.kernel.id, baseline.kernel.id),
                told=one,
                hint=hint,
            )
            # One brief tells of all the group's candidates.
            results[pair.index] = result if number or text is None else result.model_copy(update={"brief": text})
        return results

    def _told(self, pair: _Pair, side: Side, known: Known) -> Told | None:
        """What measurements say of a pair that nobody needs to forecast; None where somebody does."""
        same_program = side.kernel.source_id == pair.baseline.kernel.source_id
        if pair.own is not None or same_program or (side.facts is not None and not side.facts.ok):
            return None
        return told_of(known, side.kernel.id, pair.baseline.kernel.id)

    def _place(self, pair: _Pair) -> Place:
        if pair.device not in self._places:
            self._places[pair.device] = place_of(pair.device, self.store)
        return self._places[pair.device]

    def _known_of(self, pair: _Pair) -> Known:
        key = (pair.candidate.task.id, pair.baseline.kernel.id, pair.device)
        if key not in self._known:
            self._known[key] = known_of(self.store, key[0], self._place(pair), key[1])
        return self._known[key]

    def _backend(self, pairs: Sequence[_Pair], place: Place, pool: Sequence[Sibling]) -> tuple[Backend, str]:
        own = [pair.own for pair in pairs if pair.own is not None]
        if own:
            return AgentBackend(own[0].forecaster, [one.numbers for one in own]), ""
        chosen = choose_backend(
            self.store,
            self.backend,
            place=place,
            languages=[pair.candidate.kernel.language for pair in pairs],
            config=self.config,
            consent=self.consent,
            measured=pool,
        )
        return chosen.backend, chosen.hint

    def _record(self, forecaster: str, place: Place) -> tuple[str, ...]:
        """The record of who will read the brief: the forecaster asked, or the agent that is about to be."""
        reader = None
        if self.detail != "concise" and not forecaster.startswith(AGENT):
            reader = newest_agent(self.store, place)
        return standing_of(self.store, reader or forecaster, place, self.alpha).record

    def _brief(self, query: Query) -> str | None:
        if self.detail == "concise":
            return None
        full = self.detail == "full"
        return brief_text(query, sources=full, form="changes" if full else "table")

    def _forecast(self, query: Query, number: int, answer: Answer, standing: Standing) -> _Said:
        """The decision on one candidate's forecast; both are kept."""
        side, reply = query.candidates[number], answer.replies[number]
        decided = decide(
            reply,
            calibration=standing.calibration,
            promise=standing.promise,
            facts=side.facts,
            drift=standing.drift,
            not_trained=answer.not_trained,
            same_program=side.kernel.source_id == query.baseline.kernel.source_id,
        )
        if reply is None and answer.problems:
            decided = replace(decided, reason=f"{decided.reason} {answer.problems[-1]}")
        calibrated = None if reply is None else standing.calibration.apply(reply)
        made, audited = self._save(forecast_of(query, number, answer), decided, calibrated)
        return _Said(decided, calibrated, made, audited)

    def _save(self, made: Forecast | None, decided: Decided, calibrated: Reply | None) -> tuple[Forecast | None, bool]:
        """Save forecast and decision together; whether the audit drew it.

        The forecast keeps the probabilities as given, since calibrations are fitted on those; the interval that was
        told stands among the decision's numbers. The audit's seed is fresh and forgotten: nobody can foresee the draw.
        """
        if made is None or calibrated is None:
            return None, False
        told = {name: calibrated.quantile(level) for name, level in TOLD.items()}
        told_too = replace(decided, numbers={**decided.numbers, **told})
        decision = told_too.record(made.id, seed=secrets.token_hex(16))
        forecasts.save(self.store, made, decision)
        return made, decision.audited


def _as_found(answer: Answer, query: Query, known: Known) -> Answer:
    """An answer that knows which candidates were found right already. An agent's numbers are its own."""
    if answer.forecaster.startswith(AGENT):
        return answer
    replies = [
        reply.model_copy(update={"p_correct": RIGHT_AGAIN})
        if reply is not None and found_right(known, side.kernel.id)
        else reply
        for reply, side in zip(answer.replies, query.candidates, strict=True)
    ]
    return answer.model_copy(update={"replies": tuple(replies)})


def _side(named: Named, place: Place, pool: Sequence[Sibling] = ()) -> Side:
    """pool: where to look for what was measured of it; what only times of different runs say is no such thing."""
    found = (one for one in pool if one.kernel.id == named.kernel.id and not one.unpaired)
    return Side(kernel=named.kernel, facts=_facts_of(named.kernel, named.task, place), measured=next(found, None))


def _facts_of(kernel: Kernel, task: Task, place: Place) -> Facts | None:
    """The facts of a kernel, kept in memory; None where this machine has no compiler for it, or nothing is compiled."""
    key = (kernel.id, place.arch)
    if key not in _facts:
        try:
            found, _ = facts_of(kernel, task, place.arch)
        except (DeviceError, UnsupportedError):
            return None
        if len(_facts) >= _CACHED:
            _facts.clear()
        _facts[key] = found
    return _facts[key]
