"""The budget of a search: hard limits on what it may spend, overshot by no more than the work in flight."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import Field, model_validator

from ...store.errors import InputError
from ...store.models import Noun

_SECONDS = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0}
_SCALES = {"": 1, "k": 1_000, "M": 1_000_000}
_PART = re.compile(
    r"""(?P<usd>\$\s*(\d+(?:\.\d+)?) | (\d+(?:\.\d+)?)\s*(?:usd|USD))
      | (?P<gpu>(\d+(?:\.\d+)?)\s*gpu-?(s|sec|min|h))
      | (?P<wall>(\d+(?:\.\d+)?)\s*(s|sec|min|h))
      | (?P<tokens>(\d+(?:\.\d+)?)\s*([kM]?)t(?:ok(?:ens)?)?)
      | (?P<measurements>(\d+)\s*m)
      | (?P<candidates>(\d+)\s*c)""",
    re.VERBOSE | re.ASCII,
)
SYNTAX = "200m (measurements), 500c (candidates), 5min (wall time), 90gpu-s (GPU seconds), 2usd, 100kt (tokens)"
MOST = 1e15
"""What no limit reaches, in whatever it counts."""


class Budget(Noun):
    """Limits; None: no limit of that kind. At least one must be there."""

    gpu_seconds: float | None = Field(default=None, gt=0)
    measurements: int | None = Field(default=None, gt=0)
    usd: float | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, gt=0)
    wall_s: float | None = Field(default=None, gt=0)
    candidates: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _some_limit(self) -> Budget:
        if not self.limits:
            raise ValueError("a budget needs at least one limit")
        return self

    @property
    def limits(self) -> dict[str, float]:
        """The limits there are, by name."""
        return {name: float(value) for name in type(self).model_fields if (value := getattr(self, name)) is not None}

    def extended(self, by: Budget) -> Budget:
        """Both together: limits of one kind add up; a kind that only one of them limits keeps or gets that limit."""
        names = self.limits.keys() | by.limits.keys()
        return Budget.model_validate(
            {name: (getattr(self, name) or 0) + (getattr(by, name) or 0) for name in sorted(names)}
        )


def parse_budget(text: str) -> Budget:
    """A budget as the command line takes it, e.g. `200m,5min,2usd`. Raises InputError naming the bad part."""
    limits: dict[str, float] = {}
    parts = [piece.strip() for piece in text.split(",")]
    if any(parts) and not all(parts):
        step = "Shells read $2 as a variable: write 2usd, or put the budget in single quotes."
        raise InputError("a limit is missing between the commas of a budget", value=text, next_step=step)
    for part in filter(None, parts):
        match = _PART.fullmatch(part)
        name, value = ("", 0.0) if match is None else _limit(match)
        if match is None or not 0 < value < MOST:
            raise InputError("not a limit of a budget", value=part, next_step=f"Write limits like {SYNTAX}.")
        if name in limits:
            raise InputError("a budget limits one thing twice", value=part, next_step="Give each kind of limit once.")
        limits[name] = value
    if not limits:
        raise InputError("a budget needs at least one limit", value=text, next_step=f"Write limits like {SYNTAX}.")
    return Budget.model_validate(limits)


def _limit(match: re.Match[str]) -> tuple[str, float]:
    kind = match.lastgroup or ""
    groups = [group for group in match.groups()[1:] if group is not None and group != match[kind]]
    number = float(groups[0])
    if kind in ("gpu", "wall"):
        return ("gpu_seconds" if kind == "gpu" else "wall_s"), number * _SECONDS[groups[1]]
    if kind == "tokens":
        scale = groups[1] if len(groups) > 1 else ""
        return "tokens", round(number * _SCALES[scale])
    return kind, number


@dataclass(slots=True)
class Spent:
    """What was spent so far. wall_s: the search's clock."""

    gpu_seconds: float = 0.0
    measurements: int = 0
    usd: float = 0.0
    tokens: int = 0
    wall_s: float = 0.0
    candidates: int = 0

    def as_dict(self) -> dict[str, float]:
        """By name, as answers give it."""
        return {name: float(getattr(self, name)) for name in Budget.model_fields}


def limit_reached(budget: Budget, spent: Spent, coming: dict[str, float]) -> str | None:
    """The first limit that forbids to start more work, or None.

    coming: what the work in flight and the work to be started are expected to spend. Work whose need is known
    (counts) must fit; work whose need is only expected (seconds, money) may start while anything is left after what is
    in flight, so at most that work overshoots.
    """
    for name, limit in budget.limits.items():
        have = getattr(spent, name) + coming.get(name, 0.0)
        if (have > limit) if name in ("measurements", "candidates") else (have >= limit):
            return name
    return None
