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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ...store import searches, tasks
from ...store.database import Store
from ...store.errors import KforecastError, StoreError
from ...store.models import Kernel
from ...store.searches import LogMoved
from .bench import Bench, CalledOff, Outcome
from .chains import base_for
from .events import (
    AnyEvent,
    Began,
    Decided,
    Exhausted,
    Finished,
    Proposed,
    Refused,
    Woke,
)
from .forecasting import Forecaster, Outlook
from .generators.protocol import Generator, Nothing, Proposal, ProposalAsk
from .log import SearchLog
from .next_actions import (
    Abilities,
    Action,
    AskForecast,
    CallOff,
    Finish,
    Measure,
    Propose,
    Renew,
    Revive,
    next_action,
)
from .outcomes import forecast_events, forecasted_event, lost_event, measured_event, proposal_event
from .policies.catalogue import policy_named
from .questions import Questions, job_of
from .state import Node, State

POLL_S = 0.2
BEAT_S = 5.0
IDLE_S = 600.0
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
        self._able = Abilities(asks=parts.generator.asks, costs=parts.forecaster.costs, renews=parts.forecaster.renews)
        self._tasks: dict[Key, asyncio.Task[Result]] = {}
        self._called_off: set[Key] = set()
        self._idle_s = 0.0
        self._began_at = clock()
        self._clock_before = self._log.state.clock
        found = tasks.get(store, self._log.state.config.task_id)
        assert found is not None, "a search's task is saved before it"
        self._questions = Questions(
            store,
            found,
            wants_history=not parts.generator.inline,
            learns=bool(parts.forecaster.renews),
        )

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
            if isinstance(action, Renew):
                await self._renew(action)
                return
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
        asked: dict[int, list[Key]] = {}
        for key, began in self.state.in_flight.items():
            if key in self._tasks:
                continue
            node = self.state.nodes[self.state.by_id[began.node]]
            if began.work == "measure":
                self._tasks[key] = asyncio.create_task(self._parts.bench.measure(job_of(self.state, node, began)))
            elif began.work == "propose":
                ask = self._questions.proposal_ask(self.state, node, began.ordinal)
                self._tasks[key] = asyncio.create_task(asyncio.to_thread(self._parts.generator.propose, ask))
            else:
                asked.setdefault(self.state.measured_ancestor(node).index, []).append(key)
        for keys in asked.values():
            self._ask(keys)

    def _ask(self, keys: list[Key]) -> None:
        """Ask the forecaster about candidates of one anchor, all in one question."""
        nodes = [self.state.nodes[self.state.by_id[key[1]]] for key in keys]
        query = [self._questions.about(self.state, node) for node in nodes]
        whole = asyncio.create_task(asyncio.to_thread(self._parts.forecaster.outlooks, query))

        async def part(place: int) -> Outlook:
            return (await whole)[place]

        for place, key in enumerate(keys):
            self._tasks[key] = asyncio.create_task(part(place))

    async def _renew(self, action: Renew) -> None:
        """Forecast once more what waits; what had been forecast before stands in the log all the same."""
        nodes = [self.state.nodes[index] for index in action.indices]
        query = [self._questions.about(self.state, node) for node in nodes]
        if self._parts.forecaster.inline:
            outlooks = self._parts.forecaster.renewed(query)
        else:
            outlooks = await asyncio.to_thread(self._parts.forecaster.renewed, query)
        clock = self._clock()
        self._append(
            [
                forecasted_event(node.id, self.state.measured_ancestor(node), outlook, clock)
                for node, outlook in zip(nodes, outlooks, strict=True)
            ]
        )

    def _begin(self, action: Action) -> bool:
        """Begin an action; False where there is only to wait."""
        clock = self._clock()
        match action:
            case Propose(index, ordinal):
                self._begin_proposal(self.state.nodes[index], ordinal, clock)
            case AskForecast(indices, forbidden):
                self._begin_forecasts([self.state.nodes[index] for index in indices], forbidden, clock)
            case Revive(index):
                reason = "Dropped before; nothing better is left to measure."
                node = self.state.nodes[index]
                self._append([Decided(clock=clock, node=node.id, decision="measure", reason=reason)])
            case Measure(index, effort, purpose):
                node = self.state.nodes[index]
                against = "" if node.parent < 0 else self.state.nodes[base_for(self.state, node, purpose)].id
                began = Began(
                    clock=clock, work="measure", node=node.id, effort=effort, purpose=purpose, against=against
                )
                self._append([began])
            case CallOff():
                return self._call_off()
            case Finish(outcome, reason):
                best = self.state.winner.id if self.state.ranking else None
                self._append([Finished(clock=clock, outcome=outcome, reason=reason, best=best)])
        return True

    def _begin_proposal(self, parent: Node, ordinal: int, clock: float) -> None:
        if self._parts.generator.inline:
            result = self._proposal_now(self._questions.proposal_ask(self.state, parent, ordinal))
            self._append_proposal(self._proposal_event(parent, ordinal, result, clock), result)
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
        self._questions.keep(kernel)
        events: list[AnyEvent] = [event]
        if self._parts.forecaster.inline:
            anchor = self.state.nodes[self.state.by_id[event.parent]]
            anchor = anchor if anchor.log2 is not None else self.state.measured_ancestor(anchor)
            ask = self._questions.forecast_ask(self.state, event.node, kernel, anchor, event.own)
            events += self._forecast_events(event.node, anchor, self._parts.forecaster.outlooks([ask])[0], event.clock)
        self._append(events, (kernel,))

    def _labelled(self, proposal: Proposal) -> Kernel:
        """The kernel under a file name of its own, from the seed's and the idea; on a replay under the recorded one."""
        if self._parts.bench.virtual:
            return proposal.kernel
        seed = Path(self._questions.kernel(self.state.config.seed_id).name)
        idea = re.sub(r"[^A-Za-z0-9]+", "-", proposal.idea).strip("-")[:_LABEL]
        return proposal.kernel.model_copy(update={"name": f"{seed.stem}-{idea}{seed.suffix}"})

    def _begin_forecasts(self, nodes: list[Node], forbidden: str, clock: float) -> None:
        if not forbidden and not self._parts.forecaster.inline:
            self._append([Began(clock=clock, work="forecast", node=node.id) for node in nodes])
            return
        for node in nodes:
            if forbidden:
                outlook = Outlook(self._parts.forecaster.name, problem=forbidden, reason=forbidden)
            else:
                outlook = self._parts.forecaster.outlooks([self._questions.about(self.state, node)])[0]
            self._append(self._forecast_events(node.id, self.state.measured_ancestor(node), outlook, clock))

    def _call_off(self) -> bool:
        for key, began in self.state.in_flight.items():
            if began.work == "measure" and key not in self._called_off:
                self._called_off.add(key)
                self._parts.bench.call_off(job_of(self.state, self.state.nodes[self.state.by_id[began.node]], began))
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
            return [lost_event(began, clock, "It was called off.", called_off=True)]
        except StoreError:
            raise
        except KforecastError as error:
            return [lost_event(began, clock, str(error))]
        if isinstance(result, Outcome):
            return [measured_event(self.state, node, began, result, clock)]
        if isinstance(result, Outlook):
            return self._forecast_events(node.id, self.state.measured_ancestor(node), result, clock)
        return [self._proposal_event(node, ordinal, result, clock)]

    def _proposal_event(
        self, parent: Node, ordinal: int, result: Proposal | Nothing, clock: float
    ) -> Proposed | Refused | Exhausted:
        return proposal_event(self.state, parent, ordinal, result, self._parts.generator.name, clock)

    def _forecast_events(self, node: str, anchor: Node, outlook: Outlook, clock: float) -> list[AnyEvent]:
        return forecast_events(self.state.config, node, anchor, outlook, clock, guided=self._policy.guided)
