"""A language model through litellm, for generating: its calls enter the same daily budget as forecasts do."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from ....surrogate.backends.chat import Completion, TransportFault, most_tokens
from ....surrogate.backends.protocol import ForecasterError
from ....surrogate.backends.spend import Ledger
from ....surrogate.prompt import Message
from .llm import Reply

_ATTEMPTS = 4


class Line(Protocol):
    """A way to one model, e.g. `litellm_backend.LitellmTransport`."""

    @property
    def name(self) -> str: ...

    def price(self, conversation: Sequence[Message], max_tokens: int) -> float:
        """The most one call may cost, US dollars."""
        ...

    def say(self, conversation: Sequence[Message], max_tokens: int) -> Completion:
        """One call. Raises TransportFault where it is worth trying again, ForecasterError where it is not."""
        ...


class PaidChat:
    """One model under a budget. Retries transport faults only; a fault is never the model's answer. Each try is
    reserved before it and settled after it."""

    def __init__(self, line: Line, ledger: Ledger, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._line = line
        self._ledger = ledger
        self._sleep = sleep

    def complete(self, messages: Sequence[dict[str, str]], most_tokens: int) -> Reply:
        """One call with its retries. Raises ForecasterError where the model cannot be asked, or the budget is spent."""
        usd, tokens = 0.0, 0
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                told = self._once(messages, most_tokens)
                return Reply(told.text or "", usd + (told.usd or 0.0), tokens + (told.tokens or 0))
            except _Billed as fault:
                usd += fault.usd
                if attempt == _ATTEMPTS:
                    step = "Check that the model server is up, or try again later."
                    what = f"{self._line.name} did not answer in {attempt} tries"
                    raise ForecasterError(what, value=fault.why.what, next_step=step) from fault.why
                after = fault.why.retry_after
                self._sleep(after if after is not None else 2.0 ** (attempt - 1))
        raise AssertionError("unreachable: the last try returns or raises")

    def _once(self, messages: Sequence[dict[str, str]], room: int) -> Completion:
        conversation: Sequence[Message] = list(messages)
        price, most = self._line.price(conversation, room), most_tokens(conversation) + room
        reservation = self._ledger.reserve(price, most)
        spent, took = price, most  # until it is known better: a call whose end is unknown may be charged in full
        try:
            told = self._line.say(conversation, room)
            spent = price if told.usd is None else told.usd
            took = most if told.tokens is None else told.tokens
            return told
        except TransportFault as fault:
            spent, took = (price, most) if fault.billed else (0.0, 0)
            raise _Billed(fault, spent) from fault
        except ForecasterError:
            spent, took = 0.0, 0  # refused by the provider before any work was done
            raise
        finally:
            self._ledger.settle(reservation, spent, took)


class _Billed(Exception):
    """A fault, and what it may have cost."""

    def __init__(self, why: TransportFault, usd: float) -> None:
        super().__init__(why.what)
        self.why = why
        self.usd = usd
