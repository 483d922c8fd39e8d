"""Which forecaster answers, and what must be said before a source leaves the machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.tools.backends import Chosen, ConsentNeeded, choose_backend, configured_model, is_local
from kforecast.tools.config import Config, load_config
from kforecast.tools.forecast import forecast
from kforecast.tools.forecast_results import ForecastResult
from kforecast.tools.places import Place

PLACE = Place("cuda:7", "cuda")
MODEL = "litellm:openai/some-model"


def chosen(store: Store, asked: str | None = None, consent: bool = False, **config: Any) -> Chosen:
    settings: Config = replace(load_config(), **config)
    return choose_backend(store, asked, place=PLACE, languages=["triton"], config=settings, consent=consent)


def test_without_model_and_training_the_base_rate_stands_in(store: Store) -> None:
    assert chosen(store).backend.name == "base-rate"
    assert chosen(store, model="agent").backend.name == "base-rate"


def test_a_hosted_model_asked_for_needs_consent_once(store: Store) -> None:
    with pytest.raises(ConsentNeeded, match="would leave this machine") as refused:
        chosen(store, MODEL)
    assert f"--backend {MODEL} --yes" in refused.value.next_step
    assert chosen(store, MODEL, consent=True).backend.name == MODEL
    assert chosen(store, MODEL).backend.name == MODEL
    with pytest.raises(ConsentNeeded):
        chosen(store, "litellm:openai/another")
    with pytest.raises(ConsentNeeded):
        chosen(store, MODEL, api_base="https://elsewhere.example/v1")


def test_a_hosted_model_that_is_only_configured_waits_for_consent_without_failing(store: Store) -> None:
    waiting = chosen(store, model="openai/some-model")
    assert waiting.backend.name == "base-rate"
    assert "--yes" in waiting.hint
    agreed = chosen(store, model="openai/some-model", consent=True)
    assert (agreed.backend.name, agreed.hint) == (MODEL, "")


def test_a_local_server_needs_no_consent(store: Store) -> None:
    assert chosen(store, MODEL, api_base="http://127.0.0.1:8000/v1").backend.name == MODEL


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("http://localhost:8000/v1", True),
        ("http://127.0.0.2/v1", True),
        ("http://[::1]:1/v1", True),
        ("https://api.example.com/v1", False),
        ("http://localhost.example.com/v1", False),
        ("http://10.0.0.1/v1", False),
        ("nonsense", False),
        (None, False),
    ],
)
def test_only_this_machine_is_local(address: str | None, local: bool) -> None:
    assert is_local(address) is local


def test_configured_names() -> None:
    config = load_config()
    names = {
        "learned": "learned",
        "openai/x": "litellm:openai/x",
        "litellm:openai/x": "litellm:openai/x",
        "agent": None,
    }
    assert {name: configured_model(replace(config, model=name)) for name in names} == names


@pytest.mark.parametrize(
    ("name", "says"), [("learnt", "Did you mean learned"), ("litellm:", "litellm:<model>"), ("agent:fable", "own=")]
)
def test_unknown_backends_are_told_what_there_is(store: Store, name: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        chosen(store, name)
    assert says in refused.value.next_step


def test_the_base_rate_follows_what_was_measured(sources: dict[str, str], verify: Callable[..., object]) -> None:
    verify(30)
    result = forecast(sources["once"], baseline=sources["base"], backend="base-rate")
    assert isinstance(result, ForecastResult)
    assert result.p_bins is not None
    assert result.p_bins[5] > 0.6
    assert result.calibration.state == "none"
