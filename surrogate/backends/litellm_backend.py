"""`litellm:<model>`: any model that litellm reaches, hosted or behind a local OpenAI-compatible server.

litellm takes 5 s and 200 MB to import, so it is imported at the first call. Its own retries, caches and budgets stay
off: retries are `chat`'s, a fault must never be cached, and a budget of one process is none.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

from ..prompt import TOOL_NAME, Message, tool
from .chat import ChatBackend, ChatSettings, Completion, TransportFault, most_tokens
from .protocol import ForecasterError
from .spend import Ledger

_TRY_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


def litellm_backend(
    model: str,
    *,
    api_base: str | None = None,
    api_key: str | None = None,
    timeout_s: float = 180.0,
    calls_tools: bool | None = None,
    settings: ChatSettings | None = None,
    ledger: Ledger | None = None,
) -> ChatBackend:
    """A forecaster from litellm's name of a model, e.g. `anthropic/…`, `openai/…` with `api_base` for a local server.

    calls_tools: None asks litellm, which knows hosted models; say True for a local server that supports tools.
    timeout_s: of one call. ledger: the budget, shared across processes if it can.
    """
    transport = LitellmTransport(
        model, api_base=api_base, api_key=api_key, timeout_s=timeout_s, calls_tools=calls_tools
    )
    return ChatBackend(transport, settings, ledger)


class LitellmTransport:
    """One model through litellm."""

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 180.0,
        calls_tools: bool | None = None,
    ) -> None:
        self.name = f"litellm:{model}"
        self._model = model
        self._api_base = api_base
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._calls_tools = calls_tools

    @property
    def calls_tools(self) -> bool:
        """Whether the model is asked through a tool call, else for JSON."""
        if self._calls_tools is None:
            self._calls_tools = bool(_litellm().supports_function_calling(self._model))
        return self._calls_tools

    def price(self, conversation: Sequence[Message], max_tokens: int) -> float:
        """The most one call may cost, from litellm's price table; 0 for a model that is not in it (a local one)."""
        known = self._prices()
        return most_tokens(conversation) * known.get("input_cost_per_token", 0.0) + max_tokens * known.get(
            "output_cost_per_token", 0.0
        )

    def _prices(self) -> dict[str, float]:
        table: dict[str, dict[str, Any]] = _litellm().model_cost
        entry = table.get(self._model) or table.get(self._model.partition("/")[2]) or {}
        if self._api_base is not None:
            return {}
        return {name: float(value or 0.0) for name, value in entry.items() if name.endswith("cost_per_token")}

    def complete(self, conversation: Sequence[Message], candidates: int, max_tokens: int) -> Completion:
        """One call (see `chat.Transport`)."""
        arguments: dict[str, Any] = {}
        if self.calls_tools:
            arguments["tools"] = [tool(candidates)]
            if candidates == 1:
                arguments["tool_choice"] = {"type": "function", "function": {"name": TOOL_NAME}}
        return self._send(conversation, max_tokens, arguments)

    def say(self, conversation: Sequence[Message], max_tokens: int) -> Completion:
        """One call without tools, for whatever is not a forecast. Raises as `complete`."""
        return self._send(conversation, max_tokens, {})

    def _send(self, conversation: Sequence[Message], max_tokens: int, more: dict[str, Any]) -> Completion:
        litellm = _litellm()
        arguments: dict[str, Any] = {
            **more,
            "model": self._model,
            "messages": list(conversation),
            "max_tokens": max_tokens,
            "timeout": self._timeout_s,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,
            "caching": False,
        }
        if self._api_base is not None:
            arguments["api_base"] = self._api_base
            arguments["api_key"] = self._api_key or "none"
        elif self._api_key is not None:
            arguments["api_key"] = self._api_key
        try:
            response = litellm.completion(**arguments)
        except Exception as error:
            raise _classified(error, self.name) from error
        return _completion(response)


def _litellm() -> Any:
    """litellm, imported quietly: no price table from the network, no banner."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # Of modules that litellm imports at the first call; nobody who uses kforecast can do anything about it.
    warnings.filterwarnings("ignore", message="Items? '.*' on TypedDict class", category=UserWarning)
    try:
        import litellm
    except ImportError as error:
        raise ForecasterError(
            "litellm is not installed", next_step="Install it: pip install litellm (not 1.82.7 or 1.82.8)."
        ) from error
    litellm.suppress_debug_info = True
    return litellm


def _completion(response: Any) -> Completion:
    choices = getattr(response, "choices", None)
    if not choices:
        raise TransportFault("the server sent no choices", billed=True)
    message = choices[0].message
    calls = tuple(
        (str(call.function.name), str(call.function.arguments)) for call in getattr(message, "tool_calls", None) or ()
    )
    usage = getattr(response, "usage", None)
    tokens = getattr(usage, "total_tokens", None)
    hidden: dict[str, Any] = getattr(response, "_hidden_params", None) or {}
    cost = hidden.get("response_cost")
    return Completion(
        text=message.content,
        calls=calls,
        usd=float(cost) if cost is not None else None,
        tokens=int(tokens) if tokens else None,
    )


def _classified(error: Exception, name: str) -> Exception:
    """What an exception of litellm means: try again, or do not."""
    kinds = _litellm().exceptions
    what = " ".join(str(error).split())[:300]
    status = getattr(error, "status_code", None)
    if isinstance(error, kinds.Timeout):
        return TransportFault(f"timeout: {what}", billed=True)
    if isinstance(error, kinds.RateLimitError | kinds.InternalServerError) or status in _TRY_AGAIN:
        # A connection that broke comes as status 500 too; the body may have been on its way, and charged.
        broke = isinstance(error, kinds.APIConnectionError)
        return TransportFault(f"status {status}: {what}", retry_after=_retry_after(error), billed=broke)
    return ForecasterError(f"{name} refused the request", value=what, next_step=_next_step(error, kinds))


def _next_step(error: Exception, kinds: Any) -> str:
    if isinstance(error, kinds.AuthenticationError):
        return "Set the provider's API key in the environment."
    if isinstance(error, kinds.ContextWindowExceededError):
        return "Ask about fewer candidates at once."
    return "Check the model's name and your access to it."


def _retry_after(error: Exception) -> float | None:
    """Seconds that the server asked to wait, where it said so as a number."""
    # Versions of litellm differ in which of the two holds the server's headers.
    response = getattr(error, "response", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None) or {}
    said = str(headers.get("retry-after", ""))
    return float(said) if said.replace(".", "", 1).isdigit() else None
