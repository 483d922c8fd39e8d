"""What a search shows: curves, forecasts against measurements, decisions, spend, regret. Data only."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ...store import kernels, searches
from ...store.database import Store
from ...store.models import Kernel
from .events import AnyEvent, Decided, Forecasted, Measured, Proposed, SearchConfig
from .generators.llm import change_of
from .log import read_events
from .nodes import Node
from .replay import is_replay, pool_of
from .results import SearchResult, search_result
from .state import State, fold


@dataclass(frozen=True)
class Point:
    """The best S so far (log2, against the seed) after so many GPU seconds, candidates and measurements."""

    gpu_seconds: float
    candidates: int
    measurements: int
    log2: float


@dataclass(frozen=True)
class Verified:
    """A forecast and what was then measured, both log2 S against the seed; log2 None: the kernel was not right."""

    node: str
    idea: str
    forecaster: str
    p_correct: float
    forecast: float
    p10: float
    p90: float
    log2: float | None


@dataclass(frozen=True)
class Missed:
    """What audits say of what was not measured.

    audited: how many of the candidates not to be measured were measured anyway; better: how many of those beat the
    incumbent of that time; expected: their gains in octaves, weighted by 1/propensity: an estimate of the sum of all
    gains that decisions passed over. in_pool: on a replay device log2(best recorded / found), the true regret.
    """

    skipped: int = 0
    audited: int = 0
    better: int = 0
    expected: float = 0.0
    in_pool: float | None = None


@dataclass(frozen=True)
class Row:
    """A candidate in the report's table."""

    node: str
    kernel_id: str
    parent: str | None
    idea: str
    state: str
    verdict: str | None
    log2: float | None
    low: float | None
    high: float | None
    forecast: float | None
    decision: str
    reason: str
    audited: bool


@dataclass(frozen=True)
class Step:
    """One idea on the way to the best kernel. log2: of S against the seed after it; None: it was not measured."""

    idea: str
    log2: float | None


@dataclass(frozen=True)
class Report:
    """A search as its report shows it."""

    result: SearchResult
    config: SearchConfig
    seed: Kernel
    best: Kernel
    diff: str
    curve: list[Point]
    verified: list[Verified]
    decisions: dict[str, int]
    missed: Missed
    rows: list[Row] = field(default_factory=list)
    verdicts: dict[str, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    """From the seed to the best kernel."""


MOST_ROWS = 200


def report_of(store: Store, search_id: str) -> Report:
    """The report of a search. Raises InputError for an unknown one."""
    search = searches.resolve(store, search_id)
    log = read_events(store, search.id)
    state = fold(log)
    seed = kernels.get(store, search.seed_id)
    best = kernels.get(store, state.winner.kernel_id)
    assert seed is not None and best is not None, "a search's kernels are in the store"
    decided = [event for event in log if isinstance(event, Decided)]
    kinds = [node.decision or "waiting" for node in state.nodes[1:]]
    verdicts = [node.verdict for node in state.nodes[1:] if node.verdict]
    return Report(
        result=search_result(search, state),
        config=state.config,
        seed=seed,
        best=best,
        diff="" if best.id == seed.id else _diff(seed, best),
        curve=curve(log),
        verified=verified(log, state),
        decisions={kind: kinds.count(kind) for kind in sorted(set(kinds))},
        missed=missed(log, state, decided),
        rows=_rows(state),
        verdicts={kind: verdicts.count(kind) for kind in sorted(set(verdicts))},
        steps=_steps(state),
    )


def _steps(state: State) -> list[Step]:
    found = []
    node: Node | None = state.winner
    while node is not None and node.parent >= 0:
        found.append(Step(node.idea, node.log2))
        node = state.parent(node)
    return found[::-1]


def _diff(seed: Kernel, best: Kernel) -> str:
    text = change_of(seed, best)
    changed = [f"{name} = {value}" for name, value in best.tunables.items() if seed.tunables.get(name) != value]
    return text + ("" if not changed else f"tunables: {', '.join(changed)}\n")


def curve(log: list[AnyEvent]) -> list[Point]:
    """The best exploring measurement so far, after each measurement. Forecasts never count."""
    points: list[Point] = []
    seconds, candidates, measurements, best = 0.0, 0, 0, 0.0
    for event in log:
        candidates += isinstance(event, Proposed)
        if not isinstance(event, Measured):
            continue
        seconds += event.seconds + event.lost_seconds
        measurements += 1
        right = event.verdict == "ok" and event.log2 is not None and not (event.quarantined or event.censored)
        if right and event.log2 is not None and event.purpose != "verify":
            best = max(best, event.log2)
        points.append(Point(seconds, candidates, measurements, best))
    return points


def verified(log: list[AnyEvent], state: State) -> list[Verified]:
    """Forecasts with numbers beside the first measurement after them."""
    forecasts = {event.node: event for event in log if isinstance(event, Forecasted) and event.p_correct is not None}
    found: dict[str, Verified] = {}
    for event in log:
        told = forecasts.get(event.node) if isinstance(event, Measured) else None
        if told is None or not isinstance(event, Measured) or event.node in found or told.log2_median is None:
            continue
        base = state.nodes[state.by_id[told.anchor]].log2 or 0.0
        found[event.node] = Verified(
            node=event.node,
            idea=state.nodes[state.by_id[event.node]].idea,
            forecaster=told.forecaster,
            p_correct=told.p_correct or 0.0,
            forecast=base + told.log2_median,
            p10=base + (told.log2_p10 or told.log2_median),
            p90=base + (told.log2_p90 or told.log2_median),
            log2=event.log2 if event.verdict == "ok" else None,
        )
    return list(found.values())


def missed(log: list[AnyEvent], state: State, decided: list[Decided]) -> Missed:
    """Regret, as far as it shows."""
    skipped = {event.node: event for event in decided if event.decision != "measure" and event.answer != "faster"}
    audited = better = 0
    expected = incumbent = 0.0
    for event in log:
        if not isinstance(event, Measured) or event.log2 is None or event.verdict != "ok":
            continue
        if event.node in skipped and event.purpose == "audit":
            audited += 1
            gain = event.log2 - incumbent
            better += gain > 0
            expected += max(0.0, gain) / skipped[event.node].probability
        elif event.purpose != "verify":
            incumbent = max(incumbent, event.log2)
    return Missed(len(skipped), audited, better, expected, _pool_regret(state))


def _pool_regret(state: State) -> float | None:
    """log2(best recorded / found): of true recorded times, not of noisy readings."""
    if not is_replay(state.config.device):
        return None
    pool = pool_of(state.config.device)
    best, found = pool.best(state.config.task_id), pool.recorded.get(state.winner.kernel_id)
    if best is None or found is None or not found.ok:
        return None
    return math.log2((found.measurement.time_us or 0.0) / (best.measurement.time_us or math.inf))


def _rows(state: State) -> list[Row]:
    nodes = sorted(state.nodes, key=lambda node: (node.log2 is None, -(node.log2 or 0.0), node.index))[:MOST_ROWS]
    return [
        Row(
            node=node.id,
            kernel_id=node.kernel_id,
            parent=None if node.parent < 0 else state.nodes[node.parent].id,
            idea=node.idea,
            state=node.state,
            verdict=node.verdict,
            log2=node.log2,
            low=node.low,
            high=node.high,
            forecast=None if node.median is None else (state.nodes[node.anchor].log2 or 0.0) + node.median,
            decision=node.decision,
            reason=node.reason,
            audited=node.audited,
        )
        for node in nodes
    ]
