"""The events of a search. The log of them is the search: everything else is computed from it.

Events say what came about, never what to do. `clock` is the search's own time in seconds: the time it was worked on, or
on a replay device virtual time.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from ...store.identity import content_id
from ...store.models import DecisionKind, Effort, Noun, Verdict
from ...store.searches import LoggedEvent
from .budget import Budget

Purpose = Literal["seed", "explore", "audit", "verify"]
Order = Literal["stop", "pause", "resume", "extend"]


class SearchConfig(Noun):
    """All that decides what a search does, but for the world's answers."""

    task_id: str
    task_name: str
    seed_id: str
    """The kernel it starts from, and the baseline of every S in it."""
    device: str
    policy: str = "gain"
    generator: str = "edits+tune"
    forecaster: str = "base-rate"
    model: str | None = None
    """The language model of generator `llm`."""
    budget: Budget
    random_seed: int = 0
    alpha: float = 0.1
    effort: Effort = "quick"
    """Of exploring measurements; the winner is measured again with effort `claim`."""
    verify: bool = True
    verify_most: int = 3
    """Winners that are measured again before the search ends."""
    speculate: int = Field(default=4, ge=1)
    """Candidates proposed for each one measured."""
    breadth: int = Field(default=16, ge=0)
    """Children of the seed that a search begins with, unless its policy is `halving`."""
    measuring: int = Field(default=2, ge=1)
    """Measurements in flight: one is worked on while the next is compiled."""
    proposing: int = Field(default=2, ge=1)
    audit_rate: float = Field(default=0.05, gt=0, le=1)
    shrink: float = Field(default=0.5, ge=0, le=1)
    """What a forecast's gain counts for as the score of an unmeasured candidate."""
    exploration: float = Field(default=1.0, ge=0)
    against: Literal["anchor", "seed"] = "anchor"
    """What an exploring measurement is compared with: the nearest measured ancestor whose own S is known well enough
    (see `chains`), or the seed.
    """
    teach: float = Field(default=0.5, ge=0)
    """Worth, in octaves, of what the first measurements teach."""
    eta: int = Field(default=3, ge=2)
    """`halving` keeps one in `eta`."""
    virtual: bool = False
    """A replay device: completions come in virtual-time order."""


class Event(Noun):
    """Base of the events."""

    clock: float = 0.0


class Created(Event):
    """The search began: its configuration, and the root, which is the seed."""

    kind: Literal["created"] = "created"
    search_id: str
    config: SearchConfig
    source_id: str


class Woke(Event):
    """A worker took the search up."""

    kind: Literal["woke"] = "woke"
    owner: str


class Began(Event):
    """Work that takes its time was begun. It is in flight until an event with its outcome."""

    kind: Literal["began"] = "began"
    work: Literal["propose", "forecast", "measure"]
    node: str
    """The parent, for `propose`."""
    ordinal: int = 0
    effort: Effort = "quick"
    purpose: Purpose = "explore"
    against: str = ""
    """Of `measure`: the node that it is measured against. '': as it was before this was written down, see `base_of`."""


class OwnForecast(Noun):
    """An agent's own probabilities, as it gave them with a candidate."""

    forecaster: str
    p_correct: float
    p_bins: tuple[float, ...]


class Proposed(Event):
    """A new candidate: the child `ordinal` of `parent`."""

    kind: Literal["proposed"] = "proposed"
    node: str
    parent: str
    ordinal: int
    kernel_id: str
    source_id: str
    idea: str = ""
    """What it tries, in its author's words."""
    tag: str = ""
    """The kind of idea: what was learnt of one says something of the others."""
    generator: str = ""
    own: OwnForecast | None = None
    usd: float = 0.0
    tokens: int = 0


class Refused(Event):
    """What was proposed is no new candidate: unreadable, or a program the search has already."""

    kind: Literal["refused"] = "refused"
    parent: str
    ordinal: int
    why: Literal["duplicate", "unusable"]
    detail: str = ""
    usd: float = 0.0
    tokens: int = 0


class Exhausted(Event):
    """The generator has nothing more for this parent."""

    kind: Literal["exhausted"] = "exhausted"
    parent: str


class Forecasted(Event):
    """A forecast of a candidate against `anchor`, its nearest measured ancestor; without numbers where none came."""

    kind: Literal["forecasted"] = "forecasted"
    node: str
    anchor: str
    forecaster: str
    p_correct: float | None = None
    log2_median: float | None = None
    log2_p10: float | None = None
    log2_p90: float | None = None
    p_faster: float | None = None
    forecast_id: str | None = None
    problem: str = ""
    usd: float = 0.0
    tokens: int = 0


class Decided(Event):
    """What becomes of a candidate. probability: with which an audit measures what was not to be measured."""

    kind: Literal["decided"] = "decided"
    node: str
    decision: DecisionKind
    answer: Literal["faster", "slower", "unsure"] = "unsure"
    reason: str = ""
    final: bool = False
    """It cannot be revived: it does not compile, or is the same program as its anchor."""
    probability: float = 1.0
    audited: bool = False


class Measured(Event):
    """A measurement came in. log2 S is against the search's seed: where the measurement was against an ancestor, that
    ancestor's is added, uncertainties in quadrature."""

    kind: Literal["measured"] = "measured"
    node: str
    effort: Effort
    purpose: Purpose
    verdict: Verdict
    log2: float | None = None
    log2_low: float | None = None
    log2_high: float | None = None
    seconds: float = 0.0
    """GPU seconds of the measurement itself."""
    lost_seconds: float = 0.0
    """GPU seconds charged for attempts that were lost."""
    time_us: float | None = None
    censored: bool = False
    quarantined: bool = False
    percent_of_floor: float | None = None
    detail: str = ""
    measurement_id: str | None = None
    attempts: int = 1


class Lost(Event):
    """Work that ended without an outcome: the machinery failed, or it was called off."""

    kind: Literal["lost"] = "lost"
    work: Literal["propose", "forecast", "measure"]
    node: str
    ordinal: int = 0
    effort: Effort = "quick"
    why: str
    called_off: bool = False
    """It was cancelled and may be begun again."""
    lost_seconds: float = 0.0
    usd: float = 0.0


class Told(Event):
    """Somebody asked for something; a worker sees it and acts."""

    kind: Literal["told"] = "told"
    order: Order
    by: str = ""
    budget: Budget | None = None
    """What `extend` adds."""


class Finished(Event):
    """The search ended, for now: `resume` and `extend` go on."""

    kind: Literal["finished"] = "finished"
    outcome: Literal["completed", "failed", "cancelled", "paused"]
    reason: str
    best: str | None = None


AnyEvent = (
    Created | Woke | Began | Proposed | Refused | Exhausted | Forecasted | Decided | Measured | Lost | Told | Finished
)
_READER: TypeAdapter[AnyEvent] = TypeAdapter(Annotated[AnyEvent, Field(discriminator="kind")])
_NOT_MEANT = {"attempts", "lost_seconds", "measurement_id", "forecast_id", "by", "owner"}
_LIVE_ONLY = {"clock", "seconds", "usd", "tokens"}


def node_id(search_id: str, parent_id: str, ordinal: int) -> str:
    """The id of the child `ordinal` of a node; of the root with parent '' and ordinal 0."""
    return content_id("n", {"search": search_id, "parent": parent_id, "ordinal": ordinal})


def to_row(event: AnyEvent, ordinal: int) -> LoggedEvent:
    """The event as the store keeps it."""
    about = getattr(event, "node", None) or getattr(event, "parent", None)
    config = getattr(event, "config", None)
    text = event.model_dump_json(exclude_defaults=True, exclude={"config"} if config is not None else None)
    if config is not None:  # whole: what a default was is no secret of the version that wrote it
        text = f'{{"config":{config.model_dump_json()}' + ("," if len(text) > 2 else "") + text[1:]
    # `kind` is a default, and the one that must stand there.
    body = f'{{"kind":"{event.kind}"' + ("," if len(text) > 2 else "") + text[1:]
    return LoggedEvent(ordinal, event.kind, about, event.clock, body)


def from_row(row: LoggedEvent) -> AnyEvent:
    """The event of a row. Raises pydantic's ValidationError for a row that is none."""
    return _READER.validate_json(row.json)


def projection(events: list[AnyEvent], *, virtual: bool) -> list[dict[str, Any]]:
    """What a log means: without workers, attempts and ids of rows, and unless virtual without times and costs."""
    skipped = _NOT_MEANT if virtual else _NOT_MEANT | _LIVE_ONLY
    return [event.model_dump(mode="json", exclude=skipped) for event in events if not isinstance(event, Woke)]
