"""`kforecast eval`: what forecasters are worth, beside the controls that know nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..store.errors import InputError
from .exits import EPILOG
from .output import Column, Progress, bold, json_option, paragraph, print_json, table

if TYPE_CHECKING:
    from ..tools.eval_results import EvalResult, Number, Scored

_SHOWN = (
    ("dir", "direction", 0),
    ("bin", "accuracy", 0),
    ("CRPS", "crps", 0),
    ("RPS", "rps", 2),
    ("Spearm.", "spearman", 1),
    ("ECE", "ece_faster", 3),
    ("Brier", "brier", 4),
    ("AURC", "aurc", 5),
)


@click.command("eval", epilog=EPILOG, short_help="What forecasters are worth.")
@click.argument("backends", nargs=-1, metavar="[BACKENDS...]")
@click.option("--on", metavar="FILE", help="A store (.db), an export or published pairs (.jsonl, .jsonl.gz).")
@click.option(
    "--split",
    type=click.Choice(["family", "task", "random", "time"]),
    default="task",
    show_default=True,
    help="What is held out.",
)
@click.option("--device", "-d", metavar="NAME", help="Only what was measured on this device.")
@click.option("--pairs", "per_task", type=click.IntRange(1), default=40, show_default=True, help="Draws a task.")
@click.option("--measured", type=click.IntRange(0), default=20, show_default=True, help="Kernels taken for measured.")
@click.option("--siblings", type=click.IntRange(0), default=8, show_default=True, help="How many of those are shown.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of every draw.")
@click.option("--draws", type=click.IntRange(0), default=200, show_default=True, help="Bootstrap samples.")
@click.option("--svg", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write the plots there.")
@click.option("--plots", is_flag=True, help="Draw reliability and risk-coverage below the tables.")
@click.option(
    "--export-prompts", type=click.Path(path_type=Path), metavar="DIR", help="Write the questions; no answer."
)
@click.option(
    "--import-replies",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Score replies to those; several times for several files.",
)
@click.option(
    "--save-replies",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Keep models' replies as they come; those there are not asked for again.",
)
@click.option("--yes", "consent", is_flag=True, help="Agree, for good, that sources go to the hosted model.")
@click.option("--max-usd", type=click.FloatRange(0), metavar="USD", help="Of all processes today, on models.")
@json_option
def eval_command(
    *,
    backends: tuple[str, ...],
    on: str | None,
    svg: Path | None,
    plots: bool,
    export_prompts: Path | None,
    import_replies: tuple[Path, ...],
    save_replies: Path | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Score forecasters (learned, base-rate, litellm:MODEL) on measured pairs whose outcome they have not seen.

    Baselines are drawn from a task's correct kernels, in both orders. `learned` is trained anew for each fold. Beside
    them stand controls: base-rate, random, always-tie, floor-only, and the first forecaster with shuffled outcomes.

    \b
      kforecast eval learned --split family
      kforecast eval learned litellm:openai/gpt-5 --on atlas.db --svg plots
      kforecast eval --export-prompts out   then   kforecast eval --import-replies replies.jsonl
    """
    from ..tools import evaluate as tool

    settings = tool.Settings(**chosen)
    if export_prompts is not None:
        count = tool.export_prompts(export_prompts, on=on, settings=settings)
        if as_json:
            print_json({"prompts": count, "path": str(export_prompts / "prompts.jsonl")})
        else:
            click.echo(f"{export_prompts / 'prompts.jsonl'}: {count} questions")
        return
    if not backends and not import_replies:
        step = "Name backends, e.g. `kforecast eval learned`, or give --import-replies."
        raise InputError("nothing to evaluate", next_step=step)
    with Progress() as progress:
        result = tool.evaluate(
            backends, on=on, settings=settings, replies=import_replies, save=save_replies, on_progress=progress
        )
    if svg is not None:
        _write_plots(result, svg)
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        click.echo(page(result))
        if plots:
            click.echo(_drawn(result))


def page(result: EvalResult) -> str:
    """The tables: all pairs, close pairs, the promise; intervals of the forecasters' direction and CRPS."""
    lines = [paragraph(result.summary, indent=0)]
    lines.append(paragraph(f"{result.measured} other kernels of the task taken for measured, {result.siblings} shown."))
    for title, which in (("all pairs", "scores"), ("close pairs, within a factor of two", "close")):
        lines += ["", bold(title), _table(result.forecasters, which)]
    for one in result.forecasters:
        if one.stepped_aside and one.role == "forecaster":
            lines += [
                "",
                paragraph(f"{one.name} was not trained for {one.stepped_aside} pairs: base rates stand there."),
            ]
    lines += ["", bold("95% intervals, by bootstrap over tasks, on close pairs")]
    for one in result.forecasters:
        if one.role != "control":
            said = ", ".join(f"{title} {_interval(one.close[metric])}" for title, metric, _ in _SHOWN[:3])
            lines.append(paragraph(said, label=f"{one.name}: "))
    lines += ["", bold("the promise: wrong of the trusted, of all answers")]
    for one in result.forecasters:
        if one.promise:
            said = "; ".join(f"alpha {c.alpha:g}: {c.wrong} of {c.trusted}, of {c.answers}" for c in one.promise)
            lines.append(paragraph(said, label=f"{one.name}: "))
    return "\n".join(lines)


def _table(forecasters: tuple[Scored, ...], which: str) -> str:
    columns = [Column("forecaster", [one.name for one in forecasters])]
    for title, metric, drop in _SHOWN:
        cells = [_text(getattr(one, which)[metric]) for one in forecasters]
        columns.append(Column(title, cells, right=True, drop=drop))
    columns.append(Column("missing", [str(one.missing or "") for one in forecasters], right=True))
    return table(columns)


def _text(number: Number) -> str:
    return "-" if number.value is None else f"{number.value:.3f}"


def _interval(number: Number) -> str:
    if number.low is None or number.high is None:
        return _text(number)
    return f"{_text(number)} ({number.low:.3f} to {number.high:.3f})"


def _drawn(result: EvalResult) -> str:
    from ..tools.plots import reliability_text, risk_coverage_text

    told = [one for one in result.forecasters if one.role != "control"]
    return "\n".join(["", bold("reliability"), reliability_text(told), "", bold("risk"), risk_coverage_text(told)])


def _write_plots(result: EvalResult, folder: Path) -> None:
    from ..tools.plots import reliability_svg, risk_coverage_svg

    told = [one for one in result.forecasters if one.role != "control"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reliability.svg").write_text(reliability_svg(told), encoding="utf-8")
    (folder / "risk_coverage.svg").write_text(risk_coverage_svg(told), encoding="utf-8")
