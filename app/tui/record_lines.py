"""A forecaster's record drawn: forecast against measured, reliability, risk against coverage, drift; and in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from ...store.bins import EDGES
from ...surrogate.calibration.drift import WINDOW
from ...tools.viewing.record import Forecaster, Record, Told
from ...tools.words import ratio_text
from . import figures
from .lines import Cell, Line
from .plots import Axis, Plot
from .table import Row

Drawing = Literal["scatter", "reliability", "risk", "drift"]
DRAWINGS: dict[Drawing, str] = {
    "scatter": "forecast against measured",
    "reliability": "reliability",
    "risk": "risk against coverage",
    "drift": "drift",
}
_RATIOS = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 16.0, 64.0)
_RATIO_NAMES = {1 / 64: "1/64", 1 / 16: "1/16", 1 / 4: "1/4", 1 / 2: "1/2"}
_TENTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
_FARTHEST = math.log2(64)
_LEAST = math.log2(EDGES[-2])
"""A scatter shows at least the middle bins."""


def forecaster_row(one: Forecaster) -> Row:
    """A forecaster in the list."""
    source = "" if one.source == "store" else "in searches"
    cells: tuple[Cell, ...] = (
        one.name,
        one.device,
        f"{one.made:,}",
        (source, "dim"),
        (figures.ago(one.newest), "dim"),
    )
    return Row(one.key, cells)


def told_row(one: Told) -> Row:
    """A verified forecast in the list."""
    if one.measured is None:
        came: Cell = ("not right", "bad")
        held: Cell = ("✗", "bad")
    else:
        came = figures.ratio_span(one.measured, one.measured_low, one.measured_high)
        held = ("●", "good") if one.held else ("×", "bad")
    cells: tuple[Cell, ...] = (
        held,
        one.name,
        (figures.ratio(one.forecast), "forecast"),
        (figures.interval(one.low, one.high), "dim"),
        came,
        f"{'+' if one.forecast > (one.measured or 0) else '-'}{one.miss:.2f}" if one.measured is not None else "",
        (figures.percent(one.p_correct), ""),
        (one.decision + (" audit" if one.audited else ""), "dim"),
        (one.task, "dim"),
        (figures.ago(one.at), "dim"),
    )
    return Row(one.key, cells)


def score_lines(record: Record, width: int) -> list[Line]:
    """The record in words: one line of scores, one of what it is allowed."""
    scores = record.scores
    if not scores.pairs:
        return [((f"{record.of.made:,} forecasts, none of them verified yet.", "dim"),)]
    parts: list[tuple[str, str]] = [
        ("verified", f"{scores.pairs:,}"),
        ("direction", figures.percent(scores.direction)),
        ("rank", "-" if scores.spearman is None else f"{scores.spearman:.2f}"),
        ("80% held", figures.percent(scores.held)),
        ("error", "-" if scores.error is None else f"{scores.error:.2f}"),
        ("ECE", "-" if scores.ece_faster is None else f"{scores.ece_faster:.3f}"),
    ]
    first: list[tuple[str, str]] = []
    for name, value in parts:
        first += [(f"{name} ", "dim"), (f"{value}  ", "strong")]
    return [tuple(first), *_standing_lines(record)]


def _standing_lines(record: Record) -> list[Line]:
    standing = record.standing
    if standing is None:
        return [(("trust ", "dim"), ("none: what searches forecast for themselves promises nothing", ""))]
    promise, drift = standing.promise, standing.drift
    if promise.threshold is None:
        says = f"not yet: at least {promise.missing} more verified pairs"
    else:
        says = f"from {promise.threshold:.0%} on: {promise.wrong} of {promise.pairs} wrong"
    alarm = ("! " + drift.reason, "warn") if drift.alarm else (drift.reason, "dim")
    return [
        (("trust ", "dim"), (says, "good" if promise.threshold is not None else "warn"), ("   ", ""), alarm),
    ]


def drawn(
    record: Record, drawing: Drawing, width: int, height: int, chosen: str | None
) -> tuple[list[Line], Plot | None]:
    """A drawing in `width` by `height` characters, and the plot that it came from."""
    if drawing == "scatter":
        plot = _scatter(record.told, width, height, chosen)
    elif drawing == "reliability":
        plot = _reliability(record, width, height)
    elif drawing == "risk":
        plot = _risk(record, width, height)
    else:
        plot = _drift(record, width, height)
    if plot is None:
        words = {
            "scatter": "No forecast was verified yet: measure what was forecast.",
            "reliability": "No forecast with its probabilities was verified yet.",
            "risk": "No forecast with its probabilities was verified yet.",
            "drift": f"Drift shows from {WINDOW} verified forecasts of right kernels on.",
        }
        return [(), ((words[drawing], "dim"),)], None
    return plot.lines(), plot


def _scatter(told: Sequence[Told], width: int, height: int, chosen: str | None) -> Plot | None:
    if not told:
        return None
    ends = sorted(abs(value) for one in told for value in (one.forecast, one.measured) if value is not None)
    far = min(_FARTHEST, max(_LEAST, ends[min(len(ends) - 1, int(0.98 * len(ends)))] * 1.1))
    axis = _ratio_axis(far)
    plot = Plot(width, height, axis, axis, "measured S   ● held  × missed  ✗ not right  ◆ here", "forecast S")
    plot.line([(-far, -far), (far, far)], "faint")
    plot.dots([(-far, 0.0), (far, 0.0)], "faint")
    plot.dots([(0.0, -far), (0.0, far)], "faint")
    for one in reversed(told):
        if one.measured is None:
            plot.mark(one.forecast, -far, "✗", "bad")
        elif one.held:
            plot.mark(one.forecast, one.measured, "●", "forecast")
    for one in reversed(told):
        if one.measured is not None and not one.held:
            plot.mark(one.forecast, one.measured, "×", "bad")
    for one in told:
        if one.key == chosen:
            plot.mark(one.forecast, -far if one.measured is None else one.measured, "◆", "best")
    return plot


def _ratio_axis(far: float) -> Axis:
    ticks = tuple(math.log2(ratio) for ratio in _RATIOS if abs(math.log2(ratio)) <= far)
    return Axis(
        -far,
        far,
        ticks,
        lambda value: _RATIO_NAMES.get(2.0**value, ratio_text(2.0**value).removesuffix(".000").removesuffix(".00")),
    )


def _reliability(record: Record, width: int, height: int) -> Plot | None:
    if not record.faster and not record.correct:
        return None
    axis = _share_axis(1.0)
    plot = Plot(width, height, axis, axis, "happened   ● P(faster | right)  ○ P(right)", "said")
    plot.line([(0, 0), (1, 1)], "faint")
    for point in record.correct:
        plot.mark(point.said, point.happened, "○", "busy")
    for point in record.faster:
        plot.mark(point.said, point.happened, "●", "forecast")
    return plot


def _risk(record: Record, width: int, height: int) -> Plot | None:
    if not record.risk:
        return None
    top = min(1.0, max(0.1, max(record.risk) * 1.1))
    up = Axis(0.0, top, (0.0, top / 2, top), lambda value: f"{value:.0%}")
    plot = Plot(width, height, _share_axis(1.0), up, "share wrong", "of the surest answers")
    plot.line(list(zip(record.coverage, record.risk, strict=True)), "forecast")
    if record.standing is not None and record.standing.promise.alpha <= top:
        plot.dots([(0.0, record.standing.promise.alpha), (1.0, record.standing.promise.alpha)], "warn")
    return plot


def _drift(record: Record, width: int, height: int) -> Plot | None:
    values = record.rolling
    if not values:
        return None
    far = max(0.25, *(abs(value) for value in values)) * 1.1
    tick = 0.2 if far < 0.6 else 0.5 if far < 1.5 else 1.0
    up = Axis(-far, far, (-tick, 0.0, tick), lambda value: f"{value:+.1f}" if value else "0")
    across = Axis(
        0.0,
        max(1.0, len(values) - 1.0),
        (0.0, max(1.0, len(values) - 1.0)),
        lambda value: "old" if not value else "new",
    )
    title = f"leans, octaves: mean of forecast - measured over {WINDOW}"
    plot = Plot(width, height, across, up, title, "")
    plot.line([(0.0, 0.0), (across.high, 0.0)], "faint")
    plot.line([(float(at), value) for at, value in enumerate(values)], "forecast")
    return plot


def _share_axis(top: float) -> Axis:
    return Axis(0.0, top, tuple(tick * top for tick in _TENTHS), lambda value: f"{value:.0%}")
