"""All that is known of one candidate of a search: kernel, forecast, decisions, measurements. Data only."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...store import forecasts, kernels, measurements, pages, searches
from ...store.bins import BINS
from ...store.database import Store
from ...store.models import Kernel, Measurement
from ...store.searches import Search, SearchNode

_Z80 = 1.2815515655446004
"""Standard deviations from the median of a normal distribution to either end of its 80% interval."""


@dataclass(frozen=True)
class Outlook:
    """A forecast against the node's anchor, its nearest measured ancestor. log2 values are octaves of S against it.

    bins: the 8 probabilities; given: they are the forecaster's own, not drawn from median and interval. anchor_log2: S
    of the anchor against the seed; measured_bin: the bin of what was measured, or None.
    """

    forecaster: str
    p_correct: float | None
    p_faster: float | None
    median: float | None
    low: float | None
    high: float | None
    bins: tuple[float, ...] | None
    given: bool
    anchor: int | None
    anchor_log2: float
    measured: float | None
    cost_usd: float
    problem: str
    reasoning: str


@dataclass(frozen=True)
class Verdicted:
    """A measurement as the search's log has it. log2 S against the seed."""

    effort: str
    purpose: str
    verdict: str
    log2: float | None
    low: float | None
    high: float | None
    time_us: float | None
    percent_of_floor: float | None
    seconds: float
    censored: bool
    quarantined: bool
    detail: str
    measurement_id: str | None


@dataclass(frozen=True)
class DecisionLine:
    """A decision of the log. when: the search's seconds."""

    ordinal: int
    node_id: str
    when: float
    created_at: str
    decision: str
    answer: str
    reason: str
    probability: float
    audited: bool


@dataclass(frozen=True)
class NodeView:
    """One candidate. `measurement` is the newest that the store holds of it, with facts and environment."""

    node: SearchNode
    kernel: Kernel
    parent: Kernel | None
    parent_ordinal: int | None
    seed: Kernel
    generator: str
    tag: str
    outlook: Outlook | None
    decisions: tuple[DecisionLine, ...]
    verdicts: tuple[Verdicted, ...]
    measurement: Measurement | None
    waits_for: str


def node_view(store: Store, search: Search, node_id: str) -> NodeView | None:
    """The candidate, or None where the search has no such node."""
    row = store.read_one("SELECT * FROM nodes WHERE id = ?", (node_id,))
    if row is None:
        return None
    node = searches.node_of_row(row)
    above = None
    if node.parent_id is not None:
        found = store.read_one("SELECT * FROM nodes WHERE id = ?", (node.parent_id,))
        above = None if found is None else searches.node_of_row(found)
    log = [(event, json.loads(event.json)) for event in pages.about_nodes(store, [node_id])]
    kernel, seed = kernels.get(store, node.kernel_id), kernels.get(store, search.seed_id)
    assert kernel is not None and seed is not None, "a search's kernels are in the store"
    made = [body for event, body in log if event.kind == "proposed" and body.get("node") == node_id]
    proposed: dict[str, Any] = made[0] if made else {}
    verdicts = tuple(_verdicted(body) for event, body in log if event.kind == "measured")
    last = next((one.measurement_id for one in reversed(verdicts) if one.measurement_id), None)
    return NodeView(
        node=node,
        kernel=kernel,
        parent=None if above is None else kernels.get(store, above.kernel_id),
        parent_ordinal=None if above is None else above.ordinal,
        seed=seed,
        generator=str(proposed.get("generator", "")),
        tag=str(proposed.get("tag", "")),
        outlook=_outlook(store, node, [body for event, body in log if event.kind == "forecasted"]),
        decisions=tuple(decision_line(event) for event, _ in log if event.kind == "decided"),
        verdicts=verdicts,
        measurement=None if last is None else measurements.get(store, last),
        waits_for=_waits_for(event_body for _, event_body in log),
    )


def decision_line(event: pages.Event) -> DecisionLine:
    """A decision as a row of the log has it."""
    body = json.loads(event.json)
    return DecisionLine(
        ordinal=event.ordinal,
        node_id=event.node_id or "",
        when=event.clock,
        created_at=event.created_at,
        decision=str(body.get("decision", "")),
        answer=str(body.get("answer", "unsure")),
        reason=str(body.get("reason", "")),
        probability=float(body.get("probability", 1.0)),
        audited=bool(body.get("audited", False)),
    )


def _verdicted(body: dict[str, Any]) -> Verdicted:
    return Verdicted(
        effort=str(body.get("effort", "")),
        purpose=str(body.get("purpose", "")),
        verdict=str(body.get("verdict", "")),
        log2=body.get("log2"),
        low=body.get("log2_low"),
        high=body.get("log2_high"),
        time_us=body.get("time_us"),
        percent_of_floor=body.get("percent_of_floor"),
        seconds=float(body.get("seconds", 0.0)),
        censored=bool(body.get("censored", False)),
        quarantined=bool(body.get("quarantined", False)),
        detail=str(body.get("detail", "")),
        measurement_id=body.get("measurement_id"),
    )


def _waits_for(log: Iterable[dict[str, Any]]) -> str:
    """What is in flight for it: `its measurement`, `its forecast`, or ''."""
    flying = ""
    for body in log:
        if body["kind"] == "began" and body.get("work") in ("measure", "forecast"):
            flying = "its measurement" if body["work"] == "measure" else "its forecast"
        elif body["kind"] in ("measured", "forecasted", "lost"):
            flying = ""
    return flying


def _outlook(store: Store, node: SearchNode, told: list[dict[str, Any]]) -> Outlook | None:
    if not told:
        return None
    body = told[-1]
    saved = None if body.get("forecast_id") is None else forecasts.get(store, body["forecast_id"])
    row = store.read_one("SELECT ordinal, log2_speedup FROM nodes WHERE id = ?", (body.get("anchor"),))
    anchor_log2 = 0.0 if row is None or row["log2_speedup"] is None else float(row["log2_speedup"])
    median, low, high = body.get("log2_median"), body.get("log2_p10"), body.get("log2_p90")
    bins = None if saved is None else saved.p_bins
    if bins is None and median is not None and low is not None and high is not None:
        bins = bins_of_interval(median, low, high)
    return Outlook(
        forecaster=str(body.get("forecaster", "")),
        p_correct=body.get("p_correct"),
        p_faster=body.get("p_faster"),
        median=median,
        low=low,
        high=high,
        bins=bins,
        given=saved is not None,
        anchor=None if row is None else int(row["ordinal"]),
        anchor_log2=anchor_log2,
        measured=None if node.log2_speedup is None else node.log2_speedup - anchor_log2,
        cost_usd=float(body.get("usd", 0.0)),
        problem=str(body.get("problem", "")),
        reasoning="" if saved is None else saved.reasoning,
    )


def bins_of_interval(median: float, low: float, high: float) -> tuple[float, ...]:
    """The 8 bin probabilities of a normal distribution of log2 S with two widths that has this median and 80% interval.

    They sum to 1. For forecasts of which only these three numbers were kept.
    """
    down, up = max(1e-9, (median - low) / _Z80), max(1e-9, (high - median) / _Z80)

    def below(x: float) -> float:
        if math.isinf(x):
            return 0.0 if x < 0 else 1.0
        return 0.5 * (1 + math.erf((x - median) / ((down if x < median else up) * math.sqrt(2))))

    return tuple(below(one.log2_high) - below(one.log2_low) for one in BINS)


def changes(old: Kernel, new: Kernel, *, context: int = 3) -> list[str]:
    """What differs between two kernels, as the lines of a unified diff, settings outside the source first."""
    lines = []
    for name in sorted(old.tunables.keys() | new.tunables.keys()):
        before, after = old.tunables.get(name), new.tunables.get(name)
        if before != after:
            lines += [f"-{name} = {before}", f"+{name} = {after}"]
    if old.options != new.options and old.source == new.source:
        lines += [f"-options {' '.join(old.options)}", f"+options {' '.join(new.options)}"]
    if lines:
        lines.insert(0, "@@ outside the source @@")
    texts = (old.source.splitlines(), new.source.splitlines())
    return lines + list(difflib.unified_diff(*texts, lineterm="", n=context))[2:]
