"""A language model through litellm, for generating. Imported at the first call: it takes seconds and 200 MB."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ....surrogate.backends.chat import TransportFault
from ....surrogate.backends.litellm_backend import _classified, _completion, _litellm
from ....surrogate.backends.protocol import ForecasterError
from .llm import Reply

_ATTEMPTS = 4


class LitellmChat:
    """One model. Retries transport faults only; a fault is never the model's answer."""

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        timeout_s: float = 300.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._model = model
        self._api_base = api_base
        self._timeout_s = timeout_s
        self._sleep = sleep

    def complete(self, messages: Sequence[dict[str, str]], most_tokens: int) -> Reply:
        """One call with its retries. Raises ForecasterError where the model cannot be asked."""
        arguments: dict[str, Any] = {
            "model": self._model,
            "messages": list(messages),
            "max_tokens": most_tokens,
            "timeout": self._timeout_s,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,
            "caching": False,
        }
        if self._api_base is not None:
            arguments |= {"api_base": self._api_base, "api_key": "none"}
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._once(arguments)
            except TransportFault as fault:
                if attempt == _ATTEMPTS:
                    step = "Check that the model server is up, or try again later."
                    what = f"{self._model} did not answer in {attempt} tries"
                    raise ForecasterError(what, value=fault.what, next_step=step) from fault
                self._sleep(fault.retry_after if fault.retry_after is not None else 2.0 ** (attempt - 1))
        raise AssertionError("unreachable: the last try returns or raises")

    def _once(self, arguments: dict[str, Any]) -> Reply:
        try:
            response = _litellm().completion(**arguments)
        except Exception as error:
            raise _classified(error, f"litellm:{self._model}") from error
        told = _completion(response)
        return Reply(told.text or "", told.usd or 0.0, told.tokens or 0)
