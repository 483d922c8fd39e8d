"""A forecast as a page: one candidate in full with its bars, or several as one table, the likeliest win first."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..store.bins import BINS
from ..store.errors import KforecastError
from ..tools.forecast_results import ForecastResult
from ..tools.measured import NAME as MEASURED
from ..tools.words import first_line, ratio_text, span_text
from .output import Column, bold, dim, paragraph, shorten, table

_LABEL = 13
_BAR = 40
_COLOURS = {"trust": "green", "measure": "yellow", "drop": "red"}


def forecast_page(result: ForecastResult, file: str) -> str:
    """One forecast, the decision first."""
    lines = [bold(file), ""]
    head = paragraph(result.summary, label=f"{result.decision}  ")
    styled = click.style(result.decision, fg=_COLOURS[result.decision], bold=True)
    lines += [head.replace(result.decision, styled, 1), "", paragraph(result.reason, label="because".ljust(_LABEL))]
    if result.p_bins is not None:
        lines += ["", bars(result.p_bins)]
    lines += ["", *_rows(result), "", paragraph(_next(result), label="next".ljust(_LABEL))]
    return "\n".join([*lines, *_brief(result)])


def bars(p_bins: Sequence[float]) -> str:
    """The bins of S with their probabilities as bars, the largest speedup first."""
    rows = []
    for entry, p in sorted(zip(BINS, p_bins, strict=True), key=lambda row: -row[0].number):
        edges = entry.range_text.replace("1/√2", "0.71").replace("√2", "1.41")
        bar = "#" * round(p * _BAR)
        rows.append(f"  {entry.title.ljust(20)}  {edges.ljust(15)}  {p:4.0%}  {bar}".rstrip())
    return "\n".join(rows)


def forecasts_page(results: Sequence[ForecastResult | KforecastError], files: Sequence[str]) -> str:
    """Several forecasts as one table by P(correct and faster), errors below, then what to do."""
    good = [(file, r) for file, r in zip(files, results, strict=True) if not isinstance(r, KforecastError)]
    good.sort(key=lambda row: -_wins(row[1]))
    blocks = []
    if good:
        blocks.append(
            table(
                [
                    Column("kernel", [shorten(file, 30) for file, _ in good]),
                    Column("decision", [r.decision for _, r in good]),
                    Column("faster", [_percent(r.p_faster) for _, r in good], right=True),
                    Column("correct", [_percent(r.p_correct) for _, r in good], right=True),
                    Column("S", [ratio_text(r.speedup_median) for _, r in good], right=True),
                    Column("80%", [_span(r) for _, r in good], right=True, drop=1),
                    Column("kernel id", [r.candidate_id for _, r in good], drop=2),
                ]
            )
        )
        forecast = [result for _, result in good if result.backend != MEASURED]
        first = forecast[0] if forecast else good[0][1]
        told = len(good) - len(forecast)
        also = f"; {told} of {len(good)} told from what was measured" if forecast and told else ""
        blocks.append(dim(paragraph(f"{_by(first)}{also}", label="by".ljust(_LABEL))))
        blocks.append(paragraph(_next(first), label="next".ljust(_LABEL)))
    for file, result in zip(files, results, strict=True):
        if isinstance(result, KforecastError):
            head = f"  {shorten(file, 40)}  {click.style('error', fg='red')}"
            blocks.append(f"{head}\n{paragraph(first_line(str(result)), indent=4)}")
    for result in results:
        if not isinstance(result, KforecastError) and result.brief:
            blocks.append("\n".join(_brief(result)).lstrip())
    return "\n\n".join(blocks)


def _rows(result: ForecastResult) -> list[str]:
    rows = [
        ("by", _by(result)),
        ("cost", "" if not result.cost_usd else f"{result.cost_usd:.4f} US dollars"),
        ("compile", _compile(result)),
        ("against", f"{result.baseline_id}: {result.baseline_chosen_because}"),
        ("kernel", result.candidate_id),
        ("forecast", result.forecast_id or ""),
        ("measured", result.already_measured or ""),
    ]
    return [dim(paragraph(text, label=label.ljust(_LABEL))) for label, text in rows if text]


def _by(result: ForecastResult) -> str:
    """Who forecast, and what it stands on."""
    return "what was measured" if result.backend == MEASURED else f"{result.backend}, {_calibration(result)}"


def _calibration(result: ForecastResult) -> str:
    state = result.calibration.state.replace("_", " ")
    pairs = result.calibration.verified_pairs
    words = {"none": "not calibrated", "local": "calibrated here", "atlas": "calibrated on the atlas"}.get(state, state)
    return f"{words}, {pairs} verified pair{'' if pairs == 1 else 's'}, alpha {result.alpha:g}"


def _compile(result: ForecastResult) -> str:
    facts = result.compile
    if facts is None:
        return "not known: no compiler for it here"
    if not facts.ok:
        return f"fails: {facts.error}"
    said = (
        ("{} registers", facts.registers),
        ("{} bytes spilled", facts.spill_bytes),
        ("{} bytes shared", facts.shared_bytes),
        ("occupancy {:.0%}", facts.occupancy),
    )
    return ", ".join(form.format(value) for form, value in said if value is not None) or "ok"


def _brief(result: ForecastResult) -> list[str]:
    return ["", bold("what is known"), result.brief] if result.brief else []


def _next(result: ForecastResult) -> str:
    """What to do now, in the command line's words."""
    return result.next.replace("detail=brief", "--detail brief").replace("own={", "--own {")


def _span(result: ForecastResult) -> str:
    return "" if result.speedup_median is None else span_text(result.speedup_p10, result.speedup_p90, short=True)


def _wins(result: ForecastResult) -> float:
    return (result.p_correct or 0.0) * (result.p_faster or 0.0)


def _percent(p: float | None) -> str:
    return "" if p is None else f"{p:.0%}"
