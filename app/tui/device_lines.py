"""A device as lines: who holds it, its state with how that moved, what measurements noted of it, its profile."""

from __future__ import annotations

from collections.abc import Sequence

from ...tools.viewing.machine import About, DeviceLine, QueueLine, Sample, state_name
from . import figures
from .lines import Cell, Line
from .table import Row

_LABEL = 13
_SPARK = 40


def device_row(one: DeviceLine) -> Row:
    """A device in the list."""
    if not one.here:
        used: Cell = ("not here", "faint")
    elif one.holder is not None:
        used = ("● in use", "busy")
    else:
        used = ("○ free", "good")
    queue = f"{one.working}+{one.waiting}" if one.working or one.waiting else "-"
    cells: tuple[Cell, ...] = (
        one.device,
        used,
        one.model or "-",
        (queue, "" if one.waiting else "dim"),
        f"{one.measured:,}",
        (figures.ago(one.newest) if one.newest else "-", "dim"),
        (one.device_id or "-", "dim"),
    )
    return Row(one.key, cells)


def queue_row(one: QueueLine) -> Row:
    """A request in the queue."""
    state: Cell = ("▶ working", "busy") if one.state == "working" else ("◔ queued", "")
    before = "" if one.before is None else str(one.before)
    left = "" if one.eta_s is None else f"{one.eta_s:.0f} s" if one.eta_s < 90 else f"{one.eta_s / 60:.0f} min"
    cells: tuple[Cell, ...] = (
        state,
        one.kernel,
        (before, "dim"),
        left,
        (one.progress, "dim"),
        figures.who(one.client.removeprefix("search:"))
        if one.client.startswith("search:")
        else figures.who(one.client),
        (one.effort, "dim"),
        (figures.ago(one.created_at), "dim"),
        (figures.short(one.id), "dim"),
    )
    return Row(one.id, cells)


def about_lines(about: About, width: int) -> list[Line]:
    """All about a device."""
    line = about.line
    lines: list[Line] = [
        ((line.model or line.device, "strong"), (f"  {line.device}", ""), (f"  {line.device_id or ''}", "dim"))
    ]
    if line.holder is not None:
        held = f"process {line.holder.pid}, {line.holder.purpose}".rstrip(", ")
        lines.append(_pair("lock", (f"● held for {figures.ago(line.holder.since)} by {held}", "busy")))
    elif line.here:
        lines.append(_pair("lock", ("○ nobody holds it", "good")))
    else:
        lines.append(_pair("lock", ("not on this machine: only its measurements are", "dim")))
    lines += _state_lines(about)
    lines += _recorded_lines(about)
    lines += _profile_lines(about)
    if about.facts:
        text = "   ".join(f"{name} {value}" for name, value in about.facts)
        lines += [(), (("Machine", "title"),), ((text, "dim"),)]
    return lines


def _state_lines(about: About) -> list[Line]:
    if not about.state:
        return []
    lines: list[Line] = [(), (("Now", "title"), (f"  the last {_window(about.samples)} on the right", "dim"))]
    for name, value in about.state:
        role = "warn" if name == "throttled" and value != "no" else "strong"
        series = [sample.values[name] for sample in about.samples if name in sample.values]
        spark = (f"  {_spark(series)}", "bar") if len(series) > 1 else ("", "")
        lines.append(((state_name(name).ljust(_LABEL), "dim"), (value.ljust(12), role), spark))
    return lines


def _window(samples: Sequence[Sample]) -> str:
    if len(samples) < 2:
        return "moments"
    seconds = samples[-1].seconds - samples[0].seconds
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _recorded_lines(about: About) -> list[Line]:
    found = about.recorded
    if not (found.noise_pct or found.sm_mhz or found.temperature_c):
        return []
    lines: list[Line] = [(), (("Noted by its last measurements", "title"), ("  newest on the right", "dim"))]
    for name, series, form in (
        ("A/A noise", found.noise_pct, "{:.2g}%"),
        ("SM clock", found.sm_mhz, "{:.0f} MHz"),
        ("temperature", found.temperature_c, "{:.0f} C"),
    ):
        if series:
            middle = form.format(sorted(series)[len(series) // 2])
            ends = f"{form.format(min(series))} .. {form.format(max(series))}"
            lines.append(
                (
                    (name.ljust(_LABEL), "dim"),
                    (middle.ljust(12), "strong"),
                    (f"  {_spark(series)}", "bar"),
                    (f"  {ends}", "dim"),
                )
            )
    if found.throttled:
        lines.append(_pair("throttled", (f"! in {found.throttled} of {len(found.sm_mhz)} readings", "warn")))
    if found.measurements:
        used = f"{found.measurements:,} measurements, {found.device_seconds:,.0f} s of the device"
        lines.append(_pair("last day", (used, "")))
    return lines


def _profile_lines(about: About) -> list[Line]:
    if about.line.device == "cpu":
        return []
    if not about.profile:
        told = "not measured yet: kforecast doctor --profile" if about.line.here else "none in this store"
        return [(), (("Profile", "title"),), ((told, "dim"),)]
    lines: list[Line] = [(), (("Profile", "title"), (f"  measured {figures.ago(about.profiled_at)} ago", "dim"))]
    return [*lines, *(_pair(label, (text, "")) for label, text in about.profile)]


def _spark(series: Sequence[float]) -> str:
    """A curve between the series' own ends; a flat one lies low."""
    shown = list(series[-_SPARK:])
    low, high = min(shown), max(shown)
    return figures.sparkline([value - low for value in shown], top=max(high - low, 1e-9))


def _pair(label: str, value: tuple[str, str]) -> Line:
    return (label.ljust(_LABEL), "dim"), value
