"""A candidate as lines: forecast as bars with what was measured marked on them, decision, measurement, facts."""

from __future__ import annotations

import textwrap
from typing import Any

from ...store.bins import BINS, bin_of_log2
from ...store.models import Facts, Measurement
from ...tools.viewing.node import NodeView, Outlook, Verdicted, changes
from ...tools.words import time_text
from . import figures
from .code import diff_lines
from .lines import Line

MARKS: dict[str, tuple[str, str, str]] = {
    "seed": ("◆", "strong", "seed"),
    "proposed": ("○", "dim", "not forecast yet"),
    "queued": ("◔", "forecast", "forecast, waits for the device"),
    "measuring": ("▶", "busy", "being measured"),
    "measured": ("●", "", "measured"),
    "best": ("★", "best", "the best measured kernel"),
    "failed": ("✗", "bad", "failed"),
    "dropped": ("–", "dim", "dropped on its forecast"),
    "audited": ("◎", "warn", "measured as an audit"),
}
"""Of candidates: glyph, role, words."""
_LABEL = 11
_BAR = 22
_LONG = 22
"""A label from this length on is not what others are aligned by."""


def legend() -> list[Line]:
    """What the glyphs of the tree mean."""
    return [((f"  {glyph} ", role), (words, "")) for glyph, role, words in MARKS.values()]


def about_lines(view: NodeView, mark: str, width: int) -> list[Line]:
    """Everything known of a candidate but its source."""
    glyph, role, words = MARKS[mark]
    node = view.node
    lines: list[Line] = [
        ((f"{glyph} ", role), (f"candidate {node.ordinal}", "strong"), (f"  {words}", "dim")),
        *(((text, ""),) for text in textwrap.wrap(node.idea or "no idea given", max(20, width))),
        _pair("kernel", f"{view.kernel.name}  {view.kernel.id}", width),
        _pair("node", node.id, width),
    ]
    if view.parent_ordinal is not None:
        by = " ".join(part for part in (view.generator, view.tag) if part)
        lines.append(_pair("from", f"candidate {view.parent_ordinal}" + (f", by {by}" if by else ""), width))
    if view.kernel.tunables:
        lines.append(_pair("tunables", "  ".join(f"{k}={v}" for k, v in view.kernel.tunables.items()), width))
    if view.waits_for:
        lines.append((("now".ljust(_LABEL), "dim"), (f"▶ {view.waits_for} is in flight", "busy")))
    lines += _outlook_lines(view.outlook, width)
    lines += _decision_lines(view, width)
    lines += _verdict_lines(view, width)
    if view.measurement is not None:
        lines += measurement_lines(view.measurement, width)
    return lines


def _outlook_lines(told: Outlook | None, width: int) -> list[Line]:
    if told is None:
        return []
    lines: list[Line] = [(), (("Forecast", "title"), (f"  by {told.forecaster}", "dim"))]
    if told.median is None or told.bins is None:
        return [*lines, *_wrapped("", told.problem or "no forecast came", width)]
    lines.append(
        (
            ("correct".ljust(_LABEL), "dim"),
            (figures.percent(told.p_correct), "forecast"),
            ("   faster ", "dim"),
            (figures.percent(told.p_faster), "forecast"),
            ("   S ", "dim"),
            (figures.ratio(told.median), "forecast"),
            (f"  80%: {figures.interval(told.low, told.high)}", "dim"),
        )
    )
    lines += _bars(told, width)
    anchor = "" if told.anchor is None else f", candidate {told.anchor}"
    lines.append(((f"S here is against its nearest measured ancestor{anchor}.", "faint"),))
    if not told.given:
        lines.append((("The bars are drawn from median and interval.", "faint"),))
    if told.reasoning:
        lines += _wrapped("because", told.reasoning, width)
    return lines


def _bars(told: Outlook, width: int) -> list[Line]:
    """The 8 bins; `◀` marks the bin that the measurement fell into."""
    assert told.bins is not None
    hit = None if told.measured is None else bin_of_log2(told.measured).number
    most = max(*told.bins, 1e-9)
    room = max(6, min(_BAR, width - 37))
    lines: list[Line] = []
    for one, share in zip(BINS, told.bins, strict=True):
        filled = round(room * share / most)
        measured = one.number == hit
        lines.append(
            (
                (f"{one.range_text:>15} ", "dim"),
                ("━" * filled, "bar" if not measured else "good"),
                ("─" * (room - filled), "faint"),
                (f" {100 * share:3.0f}%", "strong" if measured else ""),
                (f" ◀ measured {figures.ratio(told.measured)}", "good") if measured else ("", ""),
            )
        )
    return lines


def _decision_lines(view: NodeView, width: int) -> list[Line]:
    if not view.decisions:
        return []
    lines: list[Line] = [(), (("Decision", "title"),)]
    for made in view.decisions:
        says = made.decision + (", drawn as an audit" if made.audited else "")
        if made.probability < 1:
            says += f" (audits: 1 in {1 / made.probability:.0f})" if made.probability else ""
        lines.append(
            (
                (f"{figures.clock(made.when):>9}  ", "dim"),
                decision_span(made.decision),
                (says[len(made.decision) :], "warn"),
            )
        )
        lines += _wrapped("", made.reason, width)
    return lines


def decision_span(decision: str) -> tuple[str, str]:
    """A decision's word with its role."""
    return decision, {"measure": "busy", "trust": "good", "drop": "dim"}.get(decision, "")


def _verdict_lines(view: NodeView, width: int) -> list[Line]:
    if not view.verdicts:
        return []
    lines: list[Line] = [(), (("Measured", "title"), ("  S against the seed", "dim"))]
    for one in view.verdicts:
        lines.append(_verdict_line(one))
        if one.detail:
            lines += _wrapped("", one.detail, width)
    return lines


def _verdict_line(one: Verdicted) -> Line:
    verdict = (one.verdict, "good" if one.verdict == "ok" else "bad")
    flags = "".join(
        f"  {word}" for word, is_so in (("censored", one.censored), ("quarantined", one.quarantined)) if is_so
    )
    if one.log2 is None:
        return ((one.purpose.ljust(_LABEL), "dim"), verdict, (flags, "warn"), (f"  {time_text(one.time_us)}", ""))
    floor = "" if one.percent_of_floor is None else f"  {one.percent_of_floor:.0f}% of floor"
    return (
        (one.purpose.ljust(_LABEL), "dim"),
        figures.ratio_span(one.log2, one.low, one.high),
        (f"  ({figures.interval(one.low, one.high)})", "dim"),
        (f"  {time_text(one.time_us)}{floor}  {one.effort}", ""),
        (flags, "warn"),
    )


def measurement_lines(found: Measurement, width: int) -> list[Line]:
    """A measurement in full: cases, facts, environment."""
    lines: list[Line] = []
    if found.quarantine:
        lines += [(), (("Quarantine", "warn"),), *_wrapped("", found.quarantine, width)]
    if len(found.cases) > 1 or any(case.time_warm_us for case in found.cases):
        lines += [(), (("Cases", "title"),)]
        for case in found.cases:
            lines.append(
                (
                    (case.case.ljust(24)[:24], ""),
                    (f" {time_text(case.time_us):>8}", ""),
                    (f" warm {time_text(case.time_warm_us):>8}", "dim"),
                    ("  S ", "dim"),
                    figures.ratio_span(case.log2_speedup, case.log2_low, case.log2_high),
                )
            )
    lines += _facts_lines(found.facts, width)
    lines += [(), (("Environment", "title"), (f"  {found.device}, {found.lane}, {found.launch_mode}", "dim"))]
    if found.noise_pct is not None:
        lines.append(_pair("noise", f"{found.noise_pct:.2g}% (A/A)", width))
    known = [*_flat(found.environment), ("isolation", found.isolation)]
    wide = max(_LABEL, *(len(name) + 2 for name, _ in known if len(name) < _LONG))
    for name, value in known:
        lines += _wrapped(name, value, width, wide)
    for note in found.notes:
        lines += _wrapped("note", note, width)
    lines.append(_pair("id", found.id, width))
    return lines


def _facts_lines(facts: Facts | None, width: int) -> list[Line]:
    if facts is None:
        return []
    lines: list[Line] = [(), (("Facts", "title"), (f"  {facts.toolchain} {facts.arch}".rstrip(), "dim"))]
    if facts.error:
        lines += _wrapped("error", facts.error, width)
    for entry in facts.entries:
        said = [
            f"{name} {value}"
            for name, value in (
                ("registers", entry.registers),
                ("spills", entry.spill_bytes),
                ("shared", entry.shared_bytes),
                ("occupancy", figures.percent(entry.occupancy) if entry.occupancy is not None else None),
            )
            if value is not None
        ]
        if said:
            lines.append(_pair(entry.entry, "  ".join(said), width))
    if facts.code_bytes is not None:
        lines.append(_pair("code", f"{facts.code_bytes:,} bytes", width))
    mix = sorted(facts.instruction_mix.items(), key=lambda pair: -pair[1])[:6]
    if mix:
        lines.append(_pair("mix", "  ".join(f"{name} {count}" for name, count in mix), width))
    if facts.labels:
        lines.append(_pair("labels", ", ".join(facts.labels), width))
    return lines


def _flat(environment: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in environment.items():
        if isinstance(value, dict):
            found += _flat(value, f"{before}{name} ")
        elif isinstance(value, list) and value and isinstance(value[-1], dict):
            found.append((f"{before}{name}".replace("_", " "), _said(value[-1])))
        elif value not in (None, "", [], {}):
            text = f"{value:.4g}" if isinstance(value, float) else str(value)
            found.append((f"{before}{name}".replace("_", " "), text))
    return found


def _pair(label: str, text: str, width: int) -> Line:
    if len(label) < _LABEL:
        return (label.ljust(_LABEL), "dim"), (text, "")
    return (f"{label}  ", "dim"), (text, "")


def _said(record: dict[str, Any]) -> str:
    """A record in a line: what it says of each, without what is empty."""
    return ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in record.items() if value not in (None, "", [])
    )


def _wrapped(label: str, text: str, width: int, wide: int = _LABEL) -> list[Line]:
    lead = max(wide, len(label) + 2)
    lines = textwrap.wrap(" ".join(text.split()), max(20, width - lead)) or [""]
    return [((label.ljust(lead) if not number else " " * lead, "dim"), (line, "")) for number, line in enumerate(lines)]


def compared_lines(one: NodeView, other: NodeView) -> list[Line]:
    """Two candidates side by side, then what differs between their sources."""
    head: list[Line] = [
        (
            ("".ljust(_LABEL), ""),
            (f"{f'marked: {one.node.ordinal}':<26}", "strong"),
            (f"here: {other.node.ordinal}", "strong"),
        )
    ]
    for label, left, right in (
        ("S", _measured(one), _measured(other)),
        ("forecast", figures.ratio(one.node.forecast_log2), figures.ratio(other.node.forecast_log2)),
        ("state", one.node.state, other.node.state),
        ("verdict", one.node.verdict or "-", other.node.verdict or "-"),
        ("time", _time(one), _time(other)),
    ):
        head.append(((label.ljust(_LABEL), "dim"), (f"{left:<26}", ""), (right, "")))
    if one.node.id == other.node.id:
        return [*head, (), (("This is the marked one: go to another candidate.", "dim"),)]
    diff = changes(one.kernel, other.kernel)
    return [*head, (), *(diff_lines(diff) or ((("No difference in source or tunables.", "dim"),),))]


def _measured(view: NodeView) -> str:
    node = view.node
    if node.log2_speedup is None:
        return "-"
    return f"{figures.ratio(node.log2_speedup)} ({figures.interval(node.log2_low, node.log2_high)})"


def _time(view: NodeView) -> str:
    return time_text(view.verdicts[-1].time_us if view.verdicts else None)
