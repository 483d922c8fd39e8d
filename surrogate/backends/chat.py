"""Asking a language model for forecasts: one conversation a sample, at most one repair turn, retries on transport only.

How a model is reached is a `Transport`'s business (`litellm_backend`); nothing here knows a provider.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ..brief import Form
from ..contract import Answer, Query, Reply
from ..prompt import TOOL_NAME, Message, messages
from ..reply import ReplyError, read, repair_message
from .protocol import ForecasterError
from .spend import Ledger, ProcessLedger

_MOST_ECHOED = 4000
"""Characters of a bad reply that the repair turn repeats to the model."""
_TOKENS_PER_CANDIDATE = 400
_CHARACTERS_PER_TOKEN = 2.5
"""Fewer than code has on average, so that a reservation is rather too large."""


@dataclass(frozen=True)
class Completion:
    """One turn of a model: text, tool calls as (name, arguments), cost. None: the provider did not say."""

    text: str | None = None
    calls: tuple[tuple[str, str], ...] = ()
    usd: float | None = None
    tokens: int | None = None


class TransportFault(Exception):
    """A call that never became an answer: refused connection, 429, 5xx, timeout, a body that broke off.

    retry_after: seconds the server asked for, if it did. billed: the provider may have charged for it.
    """

    def __init__(self, what: str, *, retry_after: float | None = None, billed: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.retry_after = retry_after
        self.billed = billed


class Transport(Protocol):
    """One model behind one way of reaching it."""

    @property
    def name(self) -> str: ...

    @property
    def calls_tools(self) -> bool: ...

    def price(self, conversation: Sequence[Message], max_tokens: int) -> float:
        """The most one call may cost, US dollars; 0 where the model has no price."""
        ...

    def complete(self, conversation: Sequence[Message], candidates: int, max_tokens: int) -> Completion:
        """One call. Raises TransportFault where it is worth trying again, ForecasterError where it is not."""
        ...


@dataclass(frozen=True)
class ChatSettings:
    """How a model is asked. attempts: tries of one call; slot: limits the calls in flight (see `slots`)."""

    samples: int = 1
    attempts: int = 4
    form: Form = "changes"
    reasoning_tokens: int = 4000
    """Room for thinking, beside what the answers need."""
    backoff_s: float = 1.0
    most_wait_s: float = 60.0
    threads: int = 4
    slot: Callable[[], AbstractContextManager[object]] = nullcontext
    sleep: Callable[[float], None] = time.sleep


@dataclass
class _Sample:
    """What one conversation came to."""

    replies: dict[int, Reply] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    usd: float | None = 0.0
    tokens: int | None = 0


def most_tokens(conversation: Sequence[Message]) -> int:
    """The most tokens that reading the conversation may take."""
    return math.ceil(sum(len(str(message["content"])) for message in conversation) / _CHARACTERS_PER_TOKEN)


class ChatBackend:
    """A language model as a forecaster."""

    def __init__(
        self, transport: Transport, settings: ChatSettings | None = None, ledger: Ledger | None = None
    ) -> None:
        self._transport = transport
        self._settings = settings or ChatSettings()
        self._ledger = ledger or ProcessLedger()
        self.name = transport.name

    def forecast(self, query: Query) -> Answer:
        """The mean of the samples' replies for each candidate.

        Raises ForecasterError (BudgetSpent among them) when no sample could be asked; a model that answers, but with
        nothing usable even after its repair turn, gives a reply of None and a problem instead.
        """
        with ThreadPoolExecutor(min(self._settings.threads, self._settings.samples)) as pool:
            futures = [pool.submit(self._ask, query) for _ in range(self._settings.samples)]
        samples: list[_Sample] = []
        faults: list[ForecasterError] = []
        for future in futures:
            error = future.exception()
            if error is None:
                samples.append(future.result())
            elif isinstance(error, ForecasterError):
                faults.append(error)
            else:
                raise error
        if not samples:
            raise faults[0]
        count = len(query.candidates)
        return Answer(
            forecaster=self.name,
            replies=tuple(
                _average([s.replies[index] for s in samples if index in s.replies]) for index in range(count)
            ),
            problems=tuple(problem for sample in samples for problem in sample.problems) + tuple(map(str, faults)),
            usd=_sum([sample.usd for sample in samples]),
            tokens=_total([sample.tokens for sample in samples]),
        )

    def _ask(self, query: Query) -> _Sample:
        count = len(query.candidates)
        conversation = messages(query, by_tool=self._transport.calls_tools, form=self._settings.form)
        sample = _Sample()
        for last in (False, True):
            try:
                completion = self._call(conversation, count, sample)
            except ForecasterError as error:
                if not last:
                    raise
                sample.problems.append(str(error))  # what the first turn brought, and cost, stays
                return sample
            problem = self._take(completion, count, sample)
            missing = [index for index in range(count) if index not in sample.replies]
            if not missing:
                return sample
            problem = problem or ReplyError("Some candidates were left out", next_step="Forecast each of them.")
            if last:
                names = ", ".join(str(index + 1) for index in missing)
                sample.problems.append(f"no forecast for candidate {names}: {problem.what} ({problem.value})")
            else:
                sample.problems.append(f"one repair turn: {problem.what}")
                repair = repair_message(problem, missing, count)
                conversation = [
                    *conversation,
                    {"role": "assistant", "content": _echo(completion)},
                    {"role": "user", "content": repair},
                ]
        return sample

    def _take(self, completion: Completion, count: int, sample: _Sample) -> ReplyError | None:
        """Read what came into the sample; the problem, if all or some of it is unusable."""
        wrong = [name for name, _ in completion.calls if name != TOOL_NAME]
        if wrong:
            return ReplyError("There is no such tool", value=wrong[0], next_step=f"Call {TOOL_NAME}.")
        content = [arguments for _, arguments in completion.calls] or completion.text
        try:
            sample.replies |= {
                index: reply for index, reply in read(content, count).items() if index not in sample.replies
            }
        except ReplyError as error:
            return error
        return None

    def _call(self, conversation: Sequence[Message], count: int, sample: _Sample) -> Completion:
        """One call with its retries, each try reserved and settled by itself."""
        settings = self._settings
        room = settings.reasoning_tokens + _TOKENS_PER_CANDIDATE * count
        price, most = self._transport.price(conversation, room), most_tokens(conversation) + room
        for attempt in range(1, settings.attempts + 1):
            reservation = self._ledger.reserve(price, most)
            spent, took = price, most  # until it is known better: a call whose end is unknown may be charged in full
            try:
                with settings.slot():
                    completion = self._transport.complete(conversation, count, room)
                spent = price if completion.usd is None else completion.usd
                took = most if completion.tokens is None else completion.tokens
            except TransportFault as fault:
                spent, took = (price, most) if fault.billed else (0.0, 0)
                sample.usd = None if sample.usd is None else sample.usd + spent
                if attempt == settings.attempts:
                    raise ForecasterError(
                        f"{self.name} did not answer in {attempt} tries",
                        value=fault.what,
                        next_step="Check that the model server is up, or try again later.",
                    ) from fault
                sample.problems.append(f"try {attempt}: {fault.what}")
                wait = settings.backoff_s * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)
                pause = min(settings.most_wait_s, wait if fault.retry_after is None else fault.retry_after)
            except ForecasterError:
                spent, took = 0.0, 0  # refused by the provider before any work was done
                raise
            else:
                sample.usd = None if sample.usd is None or completion.usd is None else sample.usd + completion.usd
                known = sample.tokens is not None and completion.tokens is not None
                sample.tokens = (sample.tokens or 0) + (completion.tokens or 0) if known else None
                return completion
            finally:
                self._ledger.settle(reservation, spent, took)
            settings.sleep(pause)
        raise AssertionError("unreachable: the last try returns or raises")


def _average(replies: Sequence[Reply]) -> Reply | None:
    """Several replies about one candidate as one: the mean of their probabilities; None for none."""
    if not replies:
        return None
    bins = np.mean([reply.p_bins for reply in replies], axis=0)
    return Reply(
        p_correct=float(np.mean([reply.p_correct for reply in replies])),
        p_bins=tuple(float(p) for p in bins / bins.sum()),
        reasoning=replies[0].reasoning,
        raw_sum=float(np.mean([reply.raw_sum for reply in replies])),
        signals=tuple(sorted({signal for reply in replies for signal in reply.signals})),
    )


def _echo(completion: Completion) -> str:
    text = "\n".join([completion.text or "", *(f"{name}({arguments})" for name, arguments in completion.calls)]).strip()
    return text[:_MOST_ECHOED] or "(nothing)"


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
