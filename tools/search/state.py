"""The state of a search: a pure reducer over its log. `fold(log)` is the whole truth; nothing else is remembered.

`State.apply` changes the state in place, since a copy an event would make long searches quadratic, but it reads nothing
except state and event: no clock, no file, no chance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .budget import Budget, Spent
from .chains import base_of, first_of_chain, follow, note_reading
from .durations import Durations
from .events import (
    AnyEvent,
    Began,
    Created,
    Decided,
    Exhausted,
    Finished,
    Forecasted,
    Lost,
    Measured,
    Proposed,
    Refused,
    SearchConfig,
    Told,
    node_id,
)
from .nodes import Node
from .orders import Phase, obey
from .ranked import Ranked

__all__ = ["MOST_LOST", "MOST_REFUSED", "Node", "Phase", "State", "begin", "fold"]

MOST_REFUSED = 8
"""Proposals refused one after the other from which on a parent counts as exhausted."""
MOST_LOST = 2
"""Times the machinery may fail on one candidate before it is given up."""
_Z80 = 2.5631031310892007
"""Width of a normal distribution's 80% interval, in standard deviations."""


@dataclass(slots=True)
class State:
    """A search as its log tells it."""

    config: SearchConfig
    search_id: str
    budget: Budget
    nodes: list[Node] = field(default_factory=list)
    by_id: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    phase: Phase = "running"
    outcome: str = ""
    reason: str = ""
    clock: float = 0.0
    device_free: float = 0.0
    """When the last measurement ended, on the search's clock."""
    events: int = 0
    in_flight: dict[tuple[str, str, int, str], Began] = field(default_factory=dict)
    to_forecast: dict[int, None] = field(default_factory=dict)
    ready: dict[int, None] = field(default_factory=dict)
    """Candidates that wait to be measured, in order of decision."""
    waiting: Ranked = field(default_factory=Ranked)
    """The same by score."""
    audits: dict[int, None] = field(default_factory=dict)
    dropped: dict[int, None] = field(default_factory=dict)
    measured: dict[int, None] = field(default_factory=dict)
    """What was measured, in order, the last again last."""
    archive: Ranked = field(default_factory=Ranked)
    """What may be expanded, by score."""
    ranking: Ranked = field(default_factory=Ranked)
    """What was measured, is right and believed, by log2 S. The root is in it."""
    claims: Ranked = field(default_factory=Ranked)
    """The part of it that was measured with effort `claim`."""
    steps: tuple[int, float] = (0, 0.0)
    """Of measured children less their measured ancestors, octaves: how many, and the sum of squares."""
    readings: tuple[int, float] = (0, 0.0)
    """Of readings against the seed: how many, and the sum of the logarithms of their standard deviations, octaves."""
    expansions: int = 0
    explored: int = 0
    """Exploring measurements begun, audits included."""
    durations: Durations = field(default_factory=Durations)
    tags: dict[str, int] = field(default_factory=dict)
    """Measurements by tag."""
    least: float = 0.0
    suspect: int = 0
    """What the last claim's first reading stood on, where it did not hold; 0: nothing is suspected."""
    moved: list[int] = field(default_factory=list)
    """Other nodes whose log2 S the last event changed."""
    lost_in_a_row: int = 0
    """Measurements that the machinery failed on since one came to its end, or since the search was resumed."""
    trouble: str = ""
    """What it said the last time."""
    refusals: int = 0
    audited: int = 0
    failed: int = 0

    @property
    def best(self) -> Node:
        """The incumbent: the best measured kernel; the root where nothing else was."""
        return self.nodes[next(iter(self.ranking), 0)]

    @property
    def winner(self) -> Node:
        """What to call the best: of those measured again as a claim the fastest, else the incumbent. A lucky reading
        that nobody repeated does not displace one that held."""
        return self.nodes[next(iter(self.claims))] if self.claims else self.best

    def parent(self, node: Node) -> Node | None:
        return None if node.parent < 0 else self.nodes[node.parent]

    def measured_ancestor(self, node: Node) -> Node:
        """The nearest measured and right ancestor: what a forecast of this node is against."""
        above = self.parent(node)
        while above is not None and above.log2 is None:
            above = self.parent(above)
        return above or self.nodes[0]

    def tick(self, clock: float) -> None:
        """Let the search's clock go on between events."""
        self.clock = max(self.clock, clock)
        self.spent.wall_s = self.clock

    def apply(self, event: AnyEvent) -> None:
        """Take one event in."""
        self.events += 1
        self.moved = []
        self.tick(event.clock)
        if isinstance(event, Measured):
            self._measured(event)
        elif isinstance(event, Proposed):
            self._proposed(event)
        elif isinstance(event, Forecasted):
            self._forecasted(event)
        elif isinstance(event, Decided):
            self._decided(event)
        elif isinstance(event, Began):
            self._began(event)
        elif isinstance(event, Refused):
            self._refused(event)
        elif isinstance(event, Exhausted):
            node = self.nodes[self.by_id[event.parent]]
            self._came_back(node, node.begun)
            self._exhaust(node)
        elif isinstance(event, Lost):
            self._lost(event)
        elif isinstance(event, Told):
            obey(self, event)
        elif isinstance(event, Finished):
            self.phase = "ended"
            self.outcome, self.reason = event.outcome, event.reason

    def _add(self, event: Proposed | Created, parent: int, source_id: str, kernel_id: str) -> Node:
        index = len(self.nodes)
        ordinal = event.ordinal if isinstance(event, Proposed) else 0
        above = self.nodes[parent].id if parent >= 0 else ""
        depth = self.nodes[parent].depth + 1 if parent >= 0 else 0
        node = Node(
            index=index,
            id=node_id(self.search_id, above, ordinal),
            parent=parent,
            ordinal=ordinal,
            depth=depth,
            kernel_id=kernel_id,
            source_id=source_id,
        )
        self.nodes.append(node)
        self.by_id[node.id] = index
        self.sources.setdefault(source_id, index)
        return node

    def _proposed(self, event: Proposed) -> None:
        parent = self.nodes[self.by_id[event.parent]]
        self._came_back(parent, event.ordinal)
        parent.refused = 0
        node = self._add(event, parent.index, event.source_id, event.kernel_id)
        node.idea, node.tag, node.own = event.idea, event.tag, event.own
        self.spent.candidates += 1
        self._pay(event.usd, event.tokens)
        self.to_forecast[node.index] = None

    def _refused(self, event: Refused) -> None:
        parent = self.nodes[self.by_id[event.parent]]
        self._came_back(parent, event.ordinal)
        self._pay(event.usd, event.tokens)
        self.refusals += 1
        parent.refused += 1
        if parent.refused >= MOST_REFUSED:
            self._exhaust(parent)

    def _forecasted(self, event: Forecasted) -> None:
        """A first forecast, or a renewed one of a candidate that waits; of what is being measured it comes too late."""
        node = self.nodes[self.by_id[event.node]]
        self.in_flight.pop(("forecast", node.id, 0, ""), None)
        self.to_forecast.pop(node.index, None)
        self._pay(event.usd, event.tokens)
        waited = node.index in self.ready
        if not (waited or node.state == "proposed" or node.index in self.audits):
            return
        if waited and node.score is not None:
            self.waiting.discard(node.score, node.index)
        node.anchor = self.by_id[event.anchor]
        node.forecaster, node.informed = event.forecaster, len(self.measured)
        node.p_correct, node.median, node.p_faster = event.p_correct, event.log2_median, event.p_faster
        if event.log2_p10 is not None and event.log2_p90 is not None:
            node.sd = max(0.0, event.log2_p90 - event.log2_p10) / _Z80
        node.own = None
        if waited:
            self.set_score(node, self._forecast_score(node))
            self.waiting.add(node.score or 0.0, node.index)

    def _decided(self, event: Decided) -> None:
        node = self.nodes[self.by_id[event.node]]
        self.dropped.pop(node.index, None)
        node.decision, node.reason, node.final = event.decision, event.reason, event.final
        node.probability, node.audited = event.probability, event.audited
        waits = event.decision == "measure" or (event.decision == "trust" and event.answer == "faster")
        if waits or event.audited:
            node.state = "ready"
            self.set_score(node, self._forecast_score(node))
            self._queue(node, audit=event.audited)
        else:
            node.state = "dropped"
            self.dropped[node.index] = None
            self.set_score(node, None)

    def _began(self, event: Began) -> None:
        node = self.nodes[self.by_id[event.node]]
        if event.work == "propose":
            self._expand(node)
            self.in_flight[("propose", node.id, event.ordinal, "")] = event
        elif event.work == "forecast":
            self.to_forecast.pop(node.index, None)
            self.in_flight[("forecast", node.id, 0, "")] = event
        else:
            self._unqueue(node)
            self.in_flight[("measure", node.id, 0, event.effort)] = event
            self.explored += event.purpose in ("explore", "audit")

    def _measured(self, event: Measured) -> None:
        node = self.nodes[self.by_id[event.node]]
        begun = self.in_flight.pop(("measure", node.id, 0, event.effort), None)
        self._unqueue(node)
        self.measured.pop(node.index, None)
        self.measured[node.index] = None
        self.device_free = max(self.device_free, event.clock)
        self.spent.measurements += 1
        self.spent.gpu_seconds += event.seconds + event.lost_seconds
        self.lost_in_a_row = 0
        if event.verdict == "ok":
            self.durations.add(event.effort, event.seconds)
        self.tags[node.tag] = self.tags.get(node.tag, 0) + 1
        self.audited += event.purpose == "audit"
        before, least = node.log2, node.low
        if before is not None:
            self.ranking.discard(before, node.index)
            self.claims.discard(before, node.index)
        right = event.verdict == "ok" and not event.quarantined and (event.log2 is not None or node.parent < 0)
        node.verdict = "quarantined" if event.quarantined else event.verdict
        node.effort, node.measurement_id, node.lost = event.effort, event.measurement_id, 0
        node.time_us, node.percent_of_floor = event.time_us, event.percent_of_floor
        node.censored, node.detail = event.censored, event.detail
        if not right:
            self.failed += 1
            node.state, node.log2, node.low, node.high = "failed", None, None, None
            self.set_score(node, None)
            return
        node.state = "measured"
        node.log2 = 0.0 if node.parent < 0 else event.log2
        node.low, node.high = (0.0, 0.0) if node.parent < 0 else (event.log2_low, event.log2_high)
        node.verified = event.purpose == "verify"
        chained, stood_on = node.chained, node.base
        node.base = base_of(self, node, event.purpose, begun)
        node.chained = node.base > 0
        if event.effort == self.config.effort:
            note_reading(self, node)
        assert node.log2 is not None
        self.least = min(self.least, node.log2)
        if not node.censored:
            self.ranking.add(node.log2, node.index)
            if node.effort == "claim":
                self.claims.add(node.log2, node.index)
        if node.parent >= 0:
            count, squares = self.steps
            self.steps = count + 1, squares + (node.log2 - (self.measured_ancestor(node).log2 or 0.0)) ** 2
        self.set_score(node, node.log2)
        if node.verified and before is not None:
            follow(self, node.index, node.log2 - before)
            held = least is None or node.high is None or node.high >= least
            self.suspect = 0 if held or not chained else first_of_chain(self.nodes, stood_on)

    def _lost(self, event: Lost) -> None:
        node = self.nodes[self.by_id[event.node]]
        effort = event.effort if event.work == "measure" else ""
        begun = self.in_flight.pop((event.work, node.id, event.ordinal, effort), None)
        self.spent.gpu_seconds += event.lost_seconds
        self._pay(event.usd, 0)
        if event.work == "forecast":
            node.unheard += 1
            self.to_forecast[node.index] = None
            return
        if event.work == "propose":
            node.refused += not event.called_off
            node.unproposed += not event.called_off
            if node.refused >= MOST_REFUSED or node.unproposed > MOST_LOST:
                self._exhaust(node)
            return
        node.lost += not event.called_off
        if not event.called_off:
            self.lost_in_a_row, self.trouble = self.lost_in_a_row + 1, event.why
        if node.parent < 0 or (begun is not None and begun.purpose == "verify"):
            node.detail = event.why
        elif begun is not None:
            self.explored -= event.called_off
            if node.log2 is not None:
                return
            if node.lost <= MOST_LOST:
                self._queue(node, audit=begun.purpose == "audit")
            else:
                node.state, node.verdict, node.detail = "failed", "lost", event.why
                self.failed += 1
                self.set_score(node, None)

    def _queue(self, node: Node, *, audit: bool) -> None:
        """Let a candidate wait for its measurement."""
        if audit:
            self.audits[node.index] = None
        elif node.score is not None:
            self.ready[node.index] = None
            self.waiting.add(node.score, node.index)

    def _unqueue(self, node: Node) -> None:
        self.audits.pop(node.index, None)
        if node.index in self.ready and node.score is not None:
            del self.ready[node.index]
            self.waiting.discard(node.score, node.index)

    def _expand(self, node: Node) -> None:
        """An expansion, counted for the node and all above it."""
        node.begun += 1
        self.expansions += 1
        above: Node | None = node
        while above is not None:
            above.visits += 1
            above = self.parent(above)

    def _came_back(self, parent: Node, ordinal: int) -> None:
        """The outcome of a proposal; one that was made at once, or unasked, counts as an expansion now."""
        if self.in_flight.pop(("propose", parent.id, ordinal, ""), None) is None:
            self._expand(parent)

    def _exhaust(self, node: Node) -> None:
        node.exhausted = True
        self._list(node)

    def _forecast_score(self, node: Node) -> float:
        """The score of a candidate that was not measured: its anchor's, and a shrunk part of the gain forecast."""
        anchor = self.nodes[node.anchor].log2 or 0.0
        if node.p_correct is None or node.median is None:
            return anchor
        return anchor + self.config.shrink * node.p_correct * node.median

    def set_score(self, node: Node, score: float | None) -> None:
        """Give a node a score, or none; what is kept in order of scores follows."""
        above = self.parent(node)
        if above is not None:
            above.child_scored(node.index, node.score, score)
        node.score = score
        self._list(node)

    def _list(self, node: Node) -> None:
        """Keep the archive in step with a node's score."""
        wanted = None if node.exhausted else node.score
        if wanted == node.listed:
            return
        if node.listed is not None:
            self.archive.discard(node.listed, node.index)
        node.listed = wanted
        if wanted is not None:
            self.archive.add(wanted, node.index)

    def _pay(self, usd: float, tokens: int) -> None:
        self.spent.usd += usd
        self.spent.tokens += tokens

    def in_flight_count(self, work: str) -> int:
        """How many of a kind of work are in flight."""
        return sum(1 for key in self.in_flight if key[0] == work)


def begin(event: Created) -> State:
    """The state after a log's first event."""
    state = State(config=event.config, search_id=event.search_id, budget=event.config.budget)
    state.events = 1
    root = state._add(event, -1, event.source_id, event.config.seed_id)
    root.state, root.idea = "ready", "the seed"
    return state


def fold(log: Iterable[AnyEvent]) -> State:
    """The state that a log tells. Raises ValueError for a log that does not begin with its creation."""
    events = iter(log)
    first = next(events, None)
    if not isinstance(first, Created):
        raise ValueError("a search's log begins with its creation")
    state = begin(first)
    for event in events:
        state.apply(event)
    return state
