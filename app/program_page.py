"""A program's run as a page: how it ended, its kernels, its output. No verdict: nobody said what it should compute."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..store.models import DeviceWork, ProgramRun
from ..tools.programs import ProgramComparison, ProgramResult
from ..tools.words import interval_text, time_text
from .output import Column, bold, dim, paragraph, shorten, table

_LABEL = 12
_SHOWN_LINES = 20
_WORDS = {"ran": "ran", "compile_error": "compile error"}


def program_page(result: ProgramResult) -> str:
    """How it ended first, then what it did on the device."""
    run = result.run
    word = _WORDS.get(run.outcome, run.outcome)
    colour = "green" if run.outcome == "ran" else "red"
    lines = [f"{bold(run.name)}  {dim(f'a program, on {run.device}')}", ""]
    lines.append(paragraph(result.summary, label=f"{word}  ").replace(word, click.style(word, fg=colour, bold=True), 1))
    blocks = (
        _text(run.diagnostics) if run.outcome == "compile_error" else "",
        _numbers(run, result.comparison),
        _work("kernel", run.kernels),
        _work("copy", run.copies),
        _text(run.output),
        "\n".join(paragraph(note, label="note".ljust(_LABEL)) for note in run.notes),
    )
    lines += [part for block in blocks if block for part in ("", block)]
    rows = [("isolation", run.isolation), ("labels", ", ".join(run.labels)), ("run", run.id)]
    lines += ["", *(f"  {label.ljust(_LABEL)}{text}" for label, text in rows if text)]
    return "\n".join([*lines, "", paragraph(result.next, label="next".ljust(_LABEL))])


def _numbers(run: ProgramRun, comparison: ProgramComparison | None) -> str:
    rows = []
    if run.kernel_us is not None:
        rows.append(("kernels", f"{time_text(run.kernel_us)} together, by the device's clock (CUPTI)"))
    if run.wall_s is not None:
        rows.append(("wall", f"{run.wall_s:.3g} s from its start to its end"))
    if run.exit_code is not None:
        rows.append(("exit code", str(run.exit_code) if run.exit_code >= 0 else f"none, signal {-run.exit_code}"))
    if comparison is not None:
        between = interval_text(comparison.low, comparison.high)
        rows.append(("ratio", f"{comparison.ratio:.3f}   interval {between}   {comparison.pairs} runs a side"))
    return "\n".join(f"  {label.ljust(_LABEL)}{text}" for label, text in rows)


def _work(title: str, kinds: Sequence[DeviceWork]) -> str:
    if not kinds:
        return ""
    return table(
        [
            Column(title, [shorten(kind.name, 34) for kind in kinds]),
            Column("launches" if title == "kernel" else "times", [f"{kind.launches:,}" for kind in kinds], right=True),
            Column("mean", [time_text(kind.mean_us) for kind in kinds], right=True),
            Column("least", [time_text(kind.least_us) for kind in kinds], right=True, drop=2),
            Column("most", [time_text(kind.most_us) for kind in kinds], right=True, drop=1),
            Column("total", [time_text(kind.total_us) for kind in kinds], right=True),
        ]
    )


def _text(text: str) -> str:
    lines = text.rstrip().splitlines()
    shown = [f"  | {line}".rstrip() for line in lines[:_SHOWN_LINES]]
    if len(lines) > _SHOWN_LINES:
        shown.append(f"  | ({len(lines) - _SHOWN_LINES} more lines; --json has them)")
    return "\n".join(shown)
