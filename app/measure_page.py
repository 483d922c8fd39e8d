"""A measurement as a page: one kernel in full, or several as one ranked table."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..store.errors import KforecastError
from ..tools.results import CaseAnswer, MeasureResult, Ranked, rank
from ..tools.words import first_line, interval_text, ratio_text, time_text
from .output import Column, bold, dim, paragraph, shorten, table

_DIAGNOSTIC_LINES = 30
_LABEL = 12


def measurement_page(result: MeasureResult) -> str:
    """One result, the verdict first."""
    where = [part for part in (result.task, result.device and f"on {result.device}", result.lane) if part]
    lines = [f"{bold(result.name or result.kernel_id or 'kernel')}  {dim(', '.join(where))}", ""]
    word = result.verdict or result.state
    lines.append(paragraph(result.summary, label=f"{word}  ").replace(word, _coloured(result, word), 1))
    blocks = (_diagnostics(result), _numbers(result), _cases(result.cases), _notes(result))
    for block in blocks:
        if block:
            lines += ["", block]
    lines += ["", *_provenance(result), "", paragraph(result.next, label="next".ljust(_LABEL))]
    return "\n".join(lines)


def ranking_page(results: Sequence[MeasureResult | KforecastError], names: Sequence[str]) -> str:
    """Several kernels, best first: one table for each task, device and baseline; those that failed below, with why."""
    groups: dict[tuple[str | None, ...], list[int]] = {}
    failed: list[int] = []
    for index, result in enumerate(results):
        if isinstance(result, KforecastError) or not result.ok or result.time_us is None:
            failed.append(index)
        else:
            groups.setdefault((result.task, result.device, result.lane, result.baseline_id), []).append(index)
    blocks = []
    for (task, device, lane, _), members in groups.items():
        ranked = rank([results[index] for index in members])
        against = next((r.result for r in ranked if isinstance(r.result, MeasureResult)), None)
        baseline = (
            "" if against is None or against.baseline_us is None else f", baseline {time_text(against.baseline_us)}"
        )
        title = f"{bold(task or 'task')}  {dim(f'on {device}, {lane}{baseline}')}"
        blocks.append(f"{title}\n\n{_ranked_table(ranked, [names[index] for index in members])}")
    if failed:
        blocks.append("\n".join([bold("without a rank"), "", *(_failed(results[i], names[i]) for i in failed)]))
    return "\n\n".join(blocks)


def _coloured(result: MeasureResult, word: str) -> str:
    colour = "green" if result.verdict == "ok" else "yellow" if result.state == "working" else "red"
    return click.style(word, fg=colour, bold=True)


def _numbers(result: MeasureResult) -> str:
    if result.time_us is None:
        return ""
    rows = [("time", f"{time_text(result.time_us)} cold" + _warm(result.time_warm_l2_us))]
    if result.baseline_us is not None:
        rows.append(("baseline", f"{time_text(result.baseline_us)} cold"))
    if result.speedup is not None:
        interval = interval_text(result.speedup_low, result.speedup_high)
        interval = f"   interval {interval}" if interval else ""
        rows.append(("S", f"{ratio_text(result.speedup)}{interval}   {result.comparison}"))
    if result.percent_of_floor is not None:
        rows.append(("floor", f"{result.percent_of_floor:.0f}%   of the speed that nothing can exceed here"))
    if result.forecast_hit is not None:
        rows.append(("forecast", f"S is {'inside' if result.forecast_hit else 'outside'} its 80% interval"))
    if result.noise_pct is not None:
        rows.append(("noise", f"{_noise(result.noise_pct)}   this measurement against itself (A/A)"))
    return "\n".join(f"  {label.ljust(_LABEL)}{text}" for label, text in rows)


def _warm(time_us: float | None) -> str:
    return "" if time_us is None else f", {time_text(time_us)} warm"


def _cases(cases: Sequence[CaseAnswer]) -> str:
    if len(cases) < 2:
        return ""
    return table(
        [
            Column("case", [case.case for case in cases]),
            Column("time", [time_text(case.time_us) for case in cases], right=True),
            Column("warm", [time_text(case.time_warm_l2_us) for case in cases], right=True, drop=3),
            Column("baseline", [time_text(case.baseline_us) for case in cases], right=True, drop=2),
            Column("S", [ratio_text(case.speedup) for case in cases], right=True),
            Column(
                "interval", [interval_text(case.speedup_low, case.speedup_high) for case in cases], right=True, drop=1
            ),
            Column("floor", [_percent(case.percent_of_floor) for case in cases], right=True, drop=4),
        ]
    )


def _notes(result: MeasureResult) -> str:
    return "\n".join(paragraph(note, label="note".ljust(_LABEL)) for note in result.notes)


def _diagnostics(result: MeasureResult) -> str:
    if not result.diagnostics or result.ok:
        return ""
    lines = result.diagnostics.rstrip().splitlines()
    shown = [f"  | {line}".rstrip() for line in lines[:_DIAGNOSTIC_LINES]]
    if len(lines) > _DIAGNOSTIC_LINES:
        shown.append(f"  | ({len(lines) - _DIAGNOSTIC_LINES} more lines; --json has them all)")
    return "\n".join(shown)


def _provenance(result: MeasureResult) -> list[str]:
    rows = [
        ("isolation", result.isolation),
        ("labels", ", ".join(result.labels)),
        ("kernel", result.kernel_id),
        ("baseline", result.baseline_id),
        ("measured", result.measurement_id),
    ]
    return [dim(f"  {label.ljust(_LABEL)}{text}") for label, text in rows if text]


def _ranked_table(ranked: Sequence[Ranked], names: Sequence[str]) -> str:
    rows = [(row, row.result) for row in ranked if isinstance(row.result, MeasureResult)]
    ranks = ["-" if row.rank is None else f"{row.rank}{'=' if row.shared else ' '}" for row, _ in rows]
    return table(
        [
            Column("rank", ranks, right=True),
            Column("kernel", [shorten(names[row.index], 32) for row, _ in rows]),
            Column("S", [ratio_text(r.speedup) for _, r in rows], right=True),
            Column("interval", [interval_text(r.speedup_low, r.speedup_high) for _, r in rows], right=True, drop=1),
            Column("time", [time_text(r.time_us) for _, r in rows], right=True),
            Column("", [_comparison(r) for _, r in rows], drop=2),
            Column("floor", [_percent(r.percent_of_floor) for _, r in rows], right=True, drop=3),
            Column("kernel id", [r.kernel_id or "" for _, r in rows], drop=4),
        ]
    )


def _failed(result: MeasureResult | KforecastError, name: str) -> str:
    if isinstance(result, KforecastError):
        value = "" if result.value is None else f": {result.value}"
        text, word = f"{result.what}{value}. {result.next_step}", "error"
    else:
        text, word = result.summary, result.verdict or result.state
    styled = click.style(word.replace("_", " "), fg="red")
    head = f"  {shorten(name, 40)}  {styled}"
    return f"{head}\n{paragraph(first_line(text), indent=4)}"


def _comparison(result: MeasureResult) -> str:
    word = "" if result.comparison in (None, "none") else str(result.comparison)
    marks = [mark for mark in ("quarantined", "censored") if mark in result.labels]
    return " ".join([word, *(f"({mark})" for mark in marks)]).strip()


def _noise(percent: float) -> str:
    return f"{percent:.0f}%" if percent >= 10 else f"{percent:.2g}%"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}%"
