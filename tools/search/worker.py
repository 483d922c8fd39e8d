"""The worker: a thin loop that carries out what `next_action` says and appends what came of it.

Whatever takes time is first written down as begun, then done, then its outcome is appended; a worker that takes a
search up starts with what was begun and has no outcome. Live, completions are taken as they come; on a replay device
the worker waits for all that is in flight and takes the one that ends first in virtual time, so that the log is the
same however fast anything really was.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ...store import kernels, searches, tasks
from ...store.database import Store
from ...store.errors import KforecastError, StoreError
from ...store.models import Kernel, Task
from ...store.searches import LogMoved
from ...surrogate.contract import Sibling
from .bench import Bench, CalledOff, Job, Outcome
from .events import (
    AnyEvent,
    Began,
    Decided,
    Exhausted,
    Finished,
    Forecasted,
    Lost,
    OwnForecast,
    Proposed,
    Refused,
    Woke,
)
from .events import node_id as child_id
from .forecasting import ForecastAsk, Forecaster, Outlook, audit_draw
from .generators.protocol import Generator, Nothing, Proposal, ProposalAsk, Tried
from .log import SearchLog
from .measured import measured_event
from .next_actions import (
    Abilities,
    Action,
    AskForecast,
    CallOff,
    Finish,
    Measure,
    Propose,
    Revive,
    next_action,
)
from .policies.catalogue import policy_named
from .state import Node, State

POLL_S = 0.2
BEAT_S = 5.0
IDLE_S = 600.0
_KERNELS = 512
_HISTORY = 5
_SIBLINGS = 96
_LABEL = 40
Result = Proposal | Nothing | Outlook | Outcome
Key = tuple[str, str, int, str]
T = TypeVar("T")


@dataclass(frozen=True)
class Parts:
    """What a search works with."""

    bench: Bench
    generator: Generator
    forecaster: Forecaster


class Worker:
    """Works on one search until it ends. The caller has taken the lease in the name of `owner`.

    fault: called with the name of every instant at which a process may die; tests let it.
    """

    def __init__(
        self,
        store: Store,
        search_id: str,
        parts: Parts,
        *,
        owner: str | None,
        fault: Callable[[str], None] = lambda instant: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._owner = owner
        self._parts = parts
        self._fault = fault
        self._now = clock
        self._log = SearchLog(store, search_id, owner)
        self._policy = policy_named(self._log.state.config.policy)
        self._able = Abilities(asks=parts.generator.asks, costs=parts.forecaster.costs)
        self._tasks: dict[Key, asyncio.Task[Result]] = {}
        self._kernels: OrderedDict[str, Kernel] = OrderedDict()
        self._called_off: set[Key] = set()
        self._idle_s = 0.0
        self._began_at = clock()
        self._clock_before = self._log.state.clock
        found = tasks.get(store, self._log.state.config.task_id)
        assert found is not None, "a search's task is saved before it"
        self._task: Task = found

    @property
    def state(self) -> State:
        return self._log.state

    async def run(self) -> State:
        """Work until the search has ended, for now, or has waited long for proposals: who brings one starts a worker
        again. Raises LeaseLost where another took it over, StoreError."""
        heart = asyncio.create_task(self._beat()) if self._owner is not None else None
        try:
            self._append([Woke(clock=self._clock(), owner=self._owner or "")])
            while self.state.phase != "ended" and self._idle_s < IDLE_S:
                if heart is not None and heart.done():
                    heart.result()
                await self._step()
            return self.state
        finally:
            self._parts.bench.close()
            for one in [*self._tasks.values(), *([heart] if heart is not None else [])]:
                one.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _step(self) -> None:
        self._log.catch_up()
        if not self._parts.bench.virtual:
            self.state.tick(self._clock())
        self._adopt()
        action = next_action(self.state, self._policy, self._able)
        try:
            if action is not None and self._begin(action):
                return
        except LogMoved:
            return
        await self._wait()

    def _clock(self) -> float:
        """The search's clock: virtual time stands still between completions."""
        if self._parts.bench.virtual:
            return self.state.clock
        return self._clock_before + self._now() - self._began_at

    def _append(self, events: list[AnyEvent], new_kernels: tuple[Kernel, ...] = ()) -> None:
        self._fault(f"before {events[0].kind}")
        self._log.append(events, new_kernels=new_kernels)
        self._fault(f"after {events[-1].kind}")

    async def _beat(self) -> None:
        assert self._owner is not None
        while True:
            await asyncio.sleep(BEAT_S)
            searches.beat(self._store, self.state.search_id, self._owner)

    def _adopt(self) -> None:
        """Start what the log says is in flight and nobody here works on."""
        for key, began in self.state.in_flight.items():
            if key not in self._tasks:
                self._start(key, began)

    def _start(self, key: Key, began: Began) -> None:
        node = self.state.nodes[self.state.by_id[began.node]]
        if began.work == "measure":
            self._tasks[key] = asyncio.create_task(self._parts.bench.measure(self._job(node, began)))
        elif began.work == "propose":
            ask = self._proposal_ask(node, began.ordinal)
            self._tasks[key] = asyncio.create_task(asyncio.to_thread(self._parts.generator.propose, ask))
        else:
            query = self._asked_of(node)
            self._tasks[key] = asyncio.create_task(asyncio.to_thread(self._parts.forecaster.outlook, query))

    def _begin(self, action: Action) -> bool:
        """Begin an action; False where there is only to wait."""
        clock = self._clock()
        match action:
            case Propose(index, ordinal):
                self._begin_proposal(self.state.nodes[index], ordinal, clock)
            case AskForecast(index, forbidden):
                self._begin_forecast(self.state.nodes[index], forbidden, clock)
            case Revive(index):
                reason = "Dropped before; nothing better is left to measure."
                node = self.state.nodes[index]
                self._append([Decided(clock=clock, node=node.id, decision="measure", reason=reason)])
            case Measure(index, effort, purpose):
                node = self.state.nodes[index]
                began = Began(clock=clock, work="measure", node=node.id, effort=effort, purpose=purpose)
                self._append([began])
            case CallOff():
                return self._call_off()
            case Finish(outcome, reason):
                best = self.state.winner.id if self.state.ranking else None
                self._append([Finished(clock=clock, outcome=outcome, reason=reason, best=best)])
        return True

    def _begin_proposal(self, parent: Node, ordinal: int, clock: float) -> None:
        if self._parts.generator.inline:
            result = self._proposal_now(self._proposal_ask(parent, ordinal))
            self._append_proposal(self._proposed(parent, ordinal, result, clock), result)
        else:
            self._append([Began(clock=clock, work="propose", node=parent.id, ordinal=ordinal)])

    def _proposal_now(self, ask: ProposalAsk) -> Proposal | Nothing:
        try:
            return self._parts.generator.propose(ask)
        except StoreError:
            raise
        except KforecastError as error:
            return Nothing("unusable", str(error))

    def _append_proposal(self, event: AnyEvent, result: object) -> None:
        """Append what was proposed, its kernel with it; and its forecast, where that takes no time."""
        if not (isinstance(event, Proposed) and isinstance(result, Proposal)):
            self._append([event])
            return
        kernel = self._labelled(result)
        self._keep(kernel)
        events: list[AnyEvent] = [event]
        if self._parts.forecaster.inline:
            anchor = self.state.nodes[self.state.by_id[event.parent]]
            anchor = anchor if anchor.log2 is not None else self.state.measured_ancestor(anchor)
            ask = self._forecast_ask(event.node, kernel, anchor, event.own)
            events += self._forecasted(event.node, anchor, self._parts.forecaster.outlook(ask), event.clock)
        self._append(events, (kernel,))

    def _labelled(self, proposal: Proposal) -> Kernel:
        """The kernel under a file name of its own, from the seed's and the idea; on a replay under the recorded one."""
        if self._parts.bench.virtual:
            return proposal.kernel
        seed = Path(self._kernel(self.state.config.seed_id).name)
        idea = re.sub(r"[^A-Za-z0-9]+", "-", proposal.idea).strip("-")[:_LABEL]
        return proposal.kernel.model_copy(update={"name": f"{seed.stem}-{idea}{seed.suffix}"})

    def _begin_forecast(self, node: Node, forbidden: str, clock: float) -> None:
        if forbidden:
            outlook = Outlook(self._parts.forecaster.name, problem=forbidden, reason=forbidden)
            self._append(self._forecasted(node.id, self.state.measured_ancestor(node), outlook, clock))
        elif self._parts.forecaster.inline:
            outlook = self._parts.forecaster.outlook(self._asked_of(node))
            self._append(self._forecasted(node.id, self.state.measured_ancestor(node), outlook, clock))
        else:
            self._append([Began(clock=clock, work="forecast", node=node.id)])

    def _call_off(self) -> bool:
        for key, began in self.state.in_flight.items():
            if began.work == "measure" and key not in self._called_off:
                self._called_off.add(key)
                self._parts.bench.call_off(self._job(self.state.nodes[self.state.by_id[began.node]], began))
        return False

    async def _wait(self) -> None:
        """Wait for completions, or for a while, and append them."""
        if not self._tasks:
            self._idle_s += POLL_S
            await asyncio.sleep(POLL_S)
            self._log.catch_up(look=True)
            return
        self._idle_s = 0.0
        if self._parts.bench.virtual:
            await asyncio.wait(self._tasks.values())
            await self._complete([self._first_in_virtual_time()])
            return
        done, _ = await asyncio.wait(self._tasks.values(), timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
        await self._complete([(key, self._clock()) for key, task in list(self._tasks.items()) if task in done])

    async def _complete(self, ended: list[tuple[Key, float]]) -> None:
        for key, clock in ended:
            self._fault(f"{key[0]} done")
            while True:
                try:
                    self._append_outcome(key, clock)
                    break
                except LogMoved:
                    continue
            del self._tasks[key]
            self._called_off.discard(key)

    def _append_outcome(self, key: Key, clock: float) -> None:
        events = self._outcome(key, clock)
        if isinstance(events[0], Proposed):
            self._append_proposal(events[0], self._tasks[key].result())
        else:
            self._append(events)

    def _first_in_virtual_time(self) -> tuple[Key, float]:
        """One device works off measurements in the order they were begun; all else takes no time."""
        free = self.state.device_free
        ends: list[tuple[float, int, Key]] = []
        for order, (key, began) in enumerate(self.state.in_flight.items()):
            end = began.clock
            if began.work == "measure":
                task = self._tasks[key]
                result = None if task.exception() else task.result()
                free = max(free, began.clock) + (result.seconds if isinstance(result, Outcome) else 0.0)
                end = free
            ends.append((max(end, self.state.clock), order, key))
        clock, _, key = min(ends)
        return key, clock

    def _outcome(self, key: Key, clock: float) -> list[AnyEvent]:
        """The events that tell of finished work."""
        about, ordinal = key[1], key[2]
        began = self.state.in_flight[key]
        node = self.state.nodes[self.state.by_id[about]]
        try:
            result = self._tasks[key].result()
        except CalledOff:
            return [_lost(began, clock, "It was called off.", called_off=True)]
        except StoreError:
            raise
        except KforecastError as error:
            return [_lost(began, clock, str(error))]
        if isinstance(result, Outcome):
            return [measured_event(self.state, node, began, result, clock)]
        if isinstance(result, Outlook):
            return self._forecasted(node.id, self.state.measured_ancestor(node), result, clock)
        return [self._proposed(node, ordinal, result, clock)]

    def _proposed(self, parent: Node, ordinal: int, result: object, clock: float) -> AnyEvent:
        if isinstance(result, Nothing):
            if result.why == "exhausted":
                return Exhausted(clock=clock, parent=parent.id)
            return Refused(
                clock=clock,
                parent=parent.id,
                ordinal=ordinal,
                why="unusable",
                detail=result.detail[:500],
                usd=result.usd,
                tokens=result.tokens,
            )
        assert isinstance(result, Proposal)
        common = {"clock": clock, "parent": parent.id, "ordinal": ordinal, "usd": result.usd, "tokens": result.tokens}
        twin = self.state.sources.get(result.kernel.source_id)
        if twin is not None:
            same = f"{result.idea}: the same program as {self.state.nodes[twin].id}"
            return Refused.model_validate({**common, "why": "duplicate", "detail": same[:500]})
        return Proposed.model_validate(
            {
                **common,
                "node": child_id(self.state.search_id, parent.id, ordinal),
                "kernel_id": result.kernel.id,
                "source_id": result.kernel.source_id,
                "idea": result.idea[:500],
                "tag": result.tag,
                "generator": self._parts.generator.name,
            }
        )

    def _forecasted(self, node: str, anchor: Node, outlook: Outlook, clock: float) -> list[AnyEvent]:
        """The forecast and the decision on it: one append, so that no forecast is without its decision."""
        config = self.state.config
        forecasted = Forecasted(
            clock=clock,
            node=node,
            anchor=anchor.id,
            forecaster=outlook.forecaster,
            p_correct=outlook.p_correct,
            log2_median=outlook.log2_median,
            log2_p10=outlook.log2_p10,
            log2_p90=outlook.log2_p90,
            p_faster=outlook.p_faster,
            forecast_id=outlook.forecast_id,
            problem=outlook.problem[:500],
            usd=outlook.usd,
            tokens=outlook.tokens,
        )
        if not self._policy.guided:
            reason = "A control measures without looking at forecasts."
            return [forecasted, Decided(clock=clock, node=node, decision="measure", reason=reason)]
        probability, audited = audit_draw(node, outlook.decision, config.audit_rate, config.random_seed)
        if outlook.audited is not None:
            probability, audited = outlook.probability, outlook.audited
        decided = Decided(
            clock=clock,
            node=node,
            decision=outlook.decision,
            answer=outlook.answer,
            reason=outlook.reason[:500],
            final=outlook.final,
            probability=probability,
            audited=audited and not outlook.final,
        )
        return [forecasted, decided]

    def _job(self, node: Node, began: Began) -> Job:
        state = self.state
        against: str | None = None
        if node.parent >= 0:
            seeds = began.purpose == "verify" or state.config.against == "seed"
            against = state.nodes[0 if seeds else node.anchor].kernel_id
        return Job(
            search_id=state.search_id,
            node=node.id,
            kernel_id=node.kernel_id,
            baseline_id=against,
            device=state.config.device,
            effort=began.effort,
            purpose=began.purpose,
            try_=node.lost,
        )

    def _asked_of(self, node: Node) -> ForecastAsk:
        return self._forecast_ask(node.id, self._kernel(node.kernel_id), self.state.measured_ancestor(node), node.own)

    def _forecast_ask(self, node: str, kernel: Kernel, anchor: Node, own: OwnForecast | None) -> ForecastAsk:
        return ForecastAsk(
            node=node,
            kernel=kernel,
            anchor=self._kernel(anchor.kernel_id),
            device=self.state.config.device,
            own=own,
            anchor_us=anchor.time_us,
            siblings=self._siblings(anchor) if self._parts.forecaster.wants_siblings else (),
        )

    def _siblings(self, anchor: Node) -> tuple[Sibling, ...]:
        """What was measured last, as siblings of a candidate of this anchor."""
        found = []
        for index in list(self.state.measured)[: -_SIBLINGS - 1 : -1]:
            node = self.state.nodes[index]
            right = node.log2 is not None and not node.censored
            found.append(
                Sibling(
                    kernel=self._kernel(node.kernel_id),
                    verdict="ok" if right else "incorrect",
                    time_us=node.time_us if right else None,
                    log2_speedup=(node.log2 or 0.0) - (anchor.log2 or 0.0) if right else None,
                    idea=node.idea,
                )
            )
        return tuple(found)

    def _proposal_ask(self, parent: Node, ordinal: int) -> ProposalAsk:
        state = self.state
        return ProposalAsk(
            parent=self._kernel(parent.kernel_id),
            task=self._task,
            device=state.config.device,
            ordinal=ordinal,
            random_seed=state.config.random_seed,
            seen=lambda source_id: source_id in state.sources,
            history=() if self._parts.generator.inline else tried(state, parent),
            log2=parent.log2,
            time_us=parent.time_us,
            percent_of_floor=parent.percent_of_floor,
        )

    def _kernel(self, kernel_id: str) -> Kernel:
        found = self._kernels.get(kernel_id)
        if found is None:
            found = kernels.get(self._store, kernel_id)
            assert found is not None, "candidates are saved before their events"
        self._keep(found)
        return found

    def _keep(self, kernel: Kernel) -> None:
        self._kernels[kernel.id] = kernel
        self._kernels.move_to_end(kernel.id)
        if len(self._kernels) > _KERNELS:
            self._kernels.popitem(last=False)


def tried(state: State, parent: Node, most: int = _HISTORY) -> tuple[Tried, ...]:
    """What was tried from a parent and how it ended: the best ones and the last failures, `most` of each."""
    children = [node for node in state.nodes[parent.index + 1 :] if node.parent == parent.index and node.verdict]
    right = sorted((node for node in children if node.log2 is not None), key=lambda node: -(node.log2 or 0.0))
    wrong = [node for node in children if node.log2 is None]
    chosen = [*right[:most], *wrong[-most:]]
    return tuple(Tried(node.idea, node.verdict or "", node.log2, node.detail) for node in chosen)


def _lost(began: Began, clock: float, why: str, *, called_off: bool = False) -> Lost:
    return Lost(
        clock=clock,
        work=began.work,
        node=began.node,
        ordinal=began.ordinal,
        effort=began.effort,
        why=why[:500],
        called_off=called_off,
    )
