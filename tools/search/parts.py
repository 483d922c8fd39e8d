"""From a search's configuration to the bench, the generator and the forecaster that it works with."""

from __future__ import annotations

from ...store.database import Store
from ...store.errors import InputError
from ...store.models import Kernel, Task
from ...store.spend import Cap
from ..backends import LITELLM, ask_first, configured_model
from ..config import load_config
from ..spending import StoreLedger
from .bench import Bench, LiveBench
from .events import SearchConfig
from .forecasting import BaseRateForecaster, Forecaster
from .generators.agent import AgentGenerator
from .generators.atlas import AtlasGenerator
from .generators.edits import EditsGenerator
from .generators.lists import ListGenerator, Together
from .generators.protocol import Generator
from .generators.tune import TuneGenerator
from .learning import HERE, LearnedHere
from .product_forecasts import ProductForecaster
from .replay import ReplayBench, is_replay, pool_of
from .worker import Parts

GENERATORS = ("edits", "tune", "edits+tune", "agent", "llm", "atlas")
FOLD = "learned-fold"
STORED = "stored:"
BEST = "best"
"""The forecaster that the product would choose by itself."""
_PATIENCE_S = 300.0
"""Of one call to a generating model."""


def parts_for(store: Store, config: SearchConfig, task: Task, seed: Kernel) -> Parts:
    """What a search works with. Raises InputError for a combination that cannot be, a leak among them."""
    forecaster = forecaster_named(store, config, task, seed)
    if not is_replay(config.device):
        return Parts(LiveBench(store), generator_named(store, config), forecaster)
    if task.name in forecaster.trained_on:
        raise InputError(
            "the forecaster was trained on what it is to forecast in this replay",
            value=f"{forecaster.name}, {task.name}",
            next_step="Use a fold model, whose training left this task's family out, or another forecaster.",
        )
    pool = pool_of(config.device)
    bench: Bench = ReplayBench(pool, config.random_seed)
    if config.generator == "atlas":
        return Parts(bench, AtlasGenerator(pool), forecaster)
    return Parts(bench, generator_named(store, config), forecaster)


def generator_named(store: Store, config: SearchConfig) -> Generator:
    """The generator of a configuration. Raises InputError for a name that is none, or that this device cannot have."""
    lists: dict[str, type[ListGenerator]] = {"edits": EditsGenerator, "tune": TuneGenerator}
    names = config.generator.split("+")
    if all(name in lists for name in names):
        parts = [lists[name]() for name in dict.fromkeys(names)]
        return parts[0] if len(parts) == 1 else Together(parts)
    if config.generator == "agent":
        return AgentGenerator()
    if config.generator == "atlas":
        step = "Use it with `--device replay:FILE`, or choose another generator."
        raise InputError("the generator `atlas` is for replays", value=config.device, next_step=step)
    if config.generator == "llm":
        from ...surrogate.backends.litellm_backend import LitellmTransport
        from .generators.llm import LlmGenerator
        from .generators.llm_chat import PaidChat

        model, settings = model_of(config), load_config()
        line = LitellmTransport(model, api_base=settings.api_base, timeout_s=_PATIENCE_S)
        ledger = StoreLedger(store.path, LITELLM + model, Cap(usd=settings.max_usd))
        return LlmGenerator(PaidChat(line, ledger), model)
    step = f"Choose one of: {', '.join(GENERATORS)}."
    raise InputError("there is no such generator", value=config.generator, next_step=step)


def model_of(config: SearchConfig) -> str:
    """The language model of generator `llm`, as litellm names it. Raises InputError without one."""
    model = config.model or configured_model(load_config())
    if model is None or model in ("learned", "base-rate"):
        step = "Name one: --model openai/gpt-5, or `model` in the configuration."
        raise InputError("the generator `llm` needs a model", value=config.generator, next_step=step)
    return model.removeprefix(LITELLM)


def forecaster_named(store: Store, config: SearchConfig, task: Task, seed: Kernel) -> Forecaster:
    """The forecaster of a configuration: `base-rate`; live `learned-here`, or as `kforecast forecast --backend` takes
    it; on a replay `learned-fold` or stored forecasts. Raises InputError for one that a replay cannot have: recorded
    kernels are not this machine's.
    """
    if is_replay(config.device) and config.forecaster == FOLD:
        from .folds import FoldForecaster

        return FoldForecaster(pool_of(config.device), task)
    if is_replay(config.device) and config.forecaster.startswith(STORED):
        from .stored import StoredForecaster

        return StoredForecaster(pool_of(config.device), task, config.forecaster.removeprefix(STORED))
    if is_replay(config.device) and config.forecaster != BaseRateForecaster.name:
        raise InputError(
            "this forecaster may have been trained on what is replayed, or knows only this machine's devices",
            value=config.forecaster,
            next_step=f"A replay takes {FOLD} (trained on the pool's other families), {STORED}NAME (forecasts in the "
            f"file) or {BaseRateForecaster.name}.",
        )
    if config.forecaster == BaseRateForecaster.name:
        return BaseRateForecaster()
    if config.forecaster == HERE:
        return LearnedHere(store, task, config.device, seed)
    backend = None if config.forecaster == BEST else config.forecaster
    return ProductForecaster(store, task, seed, config.device, backend)


def check_names(config: SearchConfig, store: Store, task: Task, seed: Kernel, *, consent: bool = False) -> None:
    """Raise InputError now for what the worker would raise later.

    consent: the user agrees that sources go to the hosted models of generator and forecaster; without it, and without
    an earlier one, ConsentNeeded.
    """
    base = load_config().api_base
    if config.generator == "llm":
        ask_first(store, LITELLM + model_of(config), base, consent)
    if config.forecaster.startswith(LITELLM):
        ask_first(store, config.forecaster, base, consent)
    parts_for(store, config, task, seed)
