"""The caller's own probabilities: how they are given, read and refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ..store.errors import InputError
from ..surrogate.backends.agent import AgentBackend, Own

OwnGiven = Mapping[str, Any]
"""`{p_correct, p_bins: [8 numbers], forecaster}`, with `reasoning` if there is any."""


@dataclass(frozen=True)
class Owned:
    """One candidate's own forecast, read."""

    forecaster: str
    numbers: Own


def owned_many(given: Sequence[OwnGiven] | None, count: int) -> list[Owned | None]:
    """The own forecasts of `count` candidates, all None without any. Raises InputError for anything unfit."""
    if given is None:
        return [None] * count
    if len(given) != count:
        step = "Give one forecast a candidate, in their order."
        raise InputError(f"{count} candidates need as many own forecasts", value=len(given), next_step=step)
    return [_owned(entry) for entry in given]


def _owned(given: OwnGiven) -> Owned:
    fields = dict(given)
    forecaster = fields.pop("forecaster", None)
    if not isinstance(forecaster, str) or not forecaster:
        step = "Add forecaster: the model that thought, not the client that calls; its record is kept under that name."
        raise InputError("own probabilities need the name of who gives them", value=forecaster, next_step=step)
    try:
        numbers = Own.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        step = "own is {p_correct, p_bins: [8 numbers, severe slowdown first], forecaster}."
        raise InputError(f"own.{where}: {first['msg']}", value=str(first["input"])[:60], next_step=step) from None
    AgentBackend(forecaster, [numbers])  # refuses numbers that are no probabilities, before anything is asked or saved
    return Owned(forecaster, numbers)
