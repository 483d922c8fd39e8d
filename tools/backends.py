"""Which forecaster answers: the one asked for, else the best that costs nothing and is trained, else what there is."""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..store import consents
from ..store.database import Store
from ..store.errors import InputError
from ..store.models import Language
from ..store.paths import runtime_dir
from ..store.spend import Cap
from ..surrogate.backends.base_rate import NAME as BASE_RATE
from ..surrogate.backends.base_rate import TaskRate
from ..surrogate.backends.learned import NAME as LEARNED
from ..surrogate.backends.learned import Learned
from ..surrogate.backends.protocol import Backend
from ..surrogate.contract import Sibling
from .config import Config
from .learned import model_for
from .places import Place
from .spending import StoreLedger

LITELLM = "litellm:"
_CALLS = 8
"""Calls to models in flight at a time, among all processes of the user."""


class ConsentNeeded(InputError):
    """A kernel's source was about to leave this machine for the first time."""


@dataclass(frozen=True)
class Chosen:
    """A forecaster, and what its choice leaves to say."""

    backend: Backend
    hint: str = ""


def choose_backend(
    store: Store,
    asked: str | None,
    *,
    place: Place,
    languages: Sequence[Language],
    config: Config,
    consent: bool = False,
    measured: Sequence[Sibling] = (),
) -> Chosen:
    """The backend asked for, or by default: `learned` where it is trained for this, else the configured model, else
    `base-rate`. measured: what `base-rate` counts. consent: the user agrees, now and from now on, that sources go to
    the hosted model.

    Raises InputError for a name that is no backend; ConsentNeeded where a hosted model was asked for without consent.
    """
    if asked is not None:
        return Chosen(_named(store, asked, place, languages, config, consent, measured))
    hint = ""
    try:
        if model_for(store, languages, place.kind) is not None:
            return Chosen(_learned(store, place, languages, measured))
    except InputError as error:  # a model of another version is no model; asked for by name it is told
        hint = str(error)
    model = configured_model(config)
    if model is None:
        return Chosen(TaskRate(measured, stands_in_for=LEARNED), hint)
    try:
        return Chosen(_named(store, model, place, languages, config, consent, measured), hint)
    except ConsentNeeded as error:
        return Chosen(TaskRate(measured, stands_in_for=LEARNED), f"{error.what}. {error.next_step}")


def configured_model(config: Config) -> str | None:
    """The configured model as a backend's name; None without one."""
    if config.model in (None, "agent"):
        return None
    assert config.model is not None
    known = config.model in (LEARNED, BASE_RATE) or config.model.startswith(LITELLM)
    return config.model if known else LITELLM + config.model


def _named(
    store: Store,
    name: str,
    place: Place,
    languages: Sequence[Language],
    config: Config,
    consent: bool,
    measured: Sequence[Sibling],
) -> Backend:
    if name == BASE_RATE:
        return TaskRate(measured)
    if name == LEARNED:
        return _learned(store, place, languages, measured)
    if name.startswith(LITELLM) and len(name) > len(LITELLM):
        ask_first(store, name, config.api_base, consent)
        from ..surrogate.backends.chat import ChatSettings
        from ..surrogate.backends.litellm_backend import litellm_backend
        from ..surrogate.backends.slots import FileSlots

        settings = ChatSettings(slot=FileSlots(runtime_dir() / "models", _CALLS))
        ledger = StoreLedger(store.path, name, Cap(usd=config.max_usd))
        model = name.removeprefix(LITELLM)
        return litellm_backend(model, api_base=config.api_base, settings=settings, ledger=ledger)
    if name.startswith("agent"):
        step = "Give its probabilities: own={p_correct, p_bins, forecaster}, or --own on the command line."
        raise InputError("an agent forecasts through its own probabilities", value=name, next_step=step)
    near = difflib.get_close_matches(name, (LEARNED, BASE_RATE), n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    step = f"{hint}The backends are {LEARNED}, {BASE_RATE} and {LITELLM}<model>, e.g. {LITELLM}openai/gpt-5."
    raise InputError("there is no such backend", value=name, next_step=step)


def _learned(store: Store, place: Place, languages: Sequence[Language], measured: Sequence[Sibling]) -> Learned:
    """The learned forecaster, which steps aside by itself where it is not trained."""
    return Learned(model_for(store, languages, place.kind), measured)


def ask_first(store: Store, name: str, api_base: str | None, consent: bool) -> None:
    """Before source first goes to a hosted model: record the consent given now, or raise ConsentNeeded without any."""
    key = name if api_base is None else f"{name} at {api_base}"
    if is_local(api_base) or consents.given(store, key):
        return
    notice = f"{name} is a hosted model: kernel sources, task and measured times would leave this machine"
    if not consent:
        raise ConsentNeeded(
            notice,
            value=api_base or "its provider",
            next_step=f"To agree once and for all: `kforecast forecast FILE --backend {name} --yes`.",
        )
    consents.give(store, key, notice)


def is_local(api_base: str | None) -> bool:
    """Whether a model server's address is this machine's own."""
    host = None if api_base is None else urlsplit(api_base).hostname
    if host is None:
        return False
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
