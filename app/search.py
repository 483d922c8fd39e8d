"""`kforecast search`: run, resume, stop, list and report searches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..store.errors import DeviceError, InputError
from .exits import EPILOG
from .output import Column, bold, dim, json_option, page_width, paragraph, print_json, shorten, table

if TYPE_CHECKING:
    from ..tools.search.results import SearchResult

_FAILED = 1


@click.group("search", epilog=EPILOG, short_help="Search for faster kernels under a budget.")
def search_command() -> None:
    """Search for a faster kernel: candidates are generated, forecast, measured and remembered under a budget.

    \b
      kforecast search run softmax.cu --budget 200m,5min
      kforecast search run softmax.cu --budget 90gpu-s --generator tune --policy halving
      kforecast search report s_1234

    Each of these commands takes --json.
    """


@search_command.command("run", epilog=EPILOG, short_help="Begin a search and follow it.")
@click.argument("seed", metavar="SEED")
@click.option(
    "--budget",
    required=True,
    metavar="LIMITS",
    help="E.g. 200m,5min: 200m measurements, 500c candidates, 5min wall time, 90gpu-s GPU time, 2usd, 100kt tokens.",
)
@click.option("--policy", metavar="NAME", help="gain (default), puct, halving, control-all, control-random.")
@click.option("--generator", metavar="NAME", help="edits+tune (default), edits, tune, llm, agent, atlas.")
@click.option("--forecaster", metavar="NAME", help="best (default), learned, base-rate, litellm:MODEL.")
@click.option("--model", metavar="NAME", help="The language model of generator llm.")
@click.option("--task", metavar="NAME", help="The task, where the header names none.")
@click.option("--device", "-d", metavar="NAME", help="cpu, cuda:0, replay:FILE. Default: the language decides.")
@click.option("--effort", "-e", type=click.Choice(["quick", "normal", "claim"]), help="Of exploring. Default: quick.")
@click.option("--speculate", type=click.IntRange(min=1), help="Candidates proposed for each one measured. Default: 4.")
@click.option("--random-seed", type=int, help="Same seed, same order of proposals. Default: 0.")
@click.option("--no-verify", is_flag=True, help="Do not measure the winner again.")
@click.option("--yes", "consent", is_flag=True, help="Agree that sources go to the hosted models named.")
@click.option("--detach", is_flag=True, help="Print the id and return; the search goes on by itself.")
@click.option("--foreground", is_flag=True, help="Work in this process instead of a worker of its own.")
@json_option
def run_command(
    *, seed: str, budget: str, no_verify: bool, detach: bool, foreground: bool, as_json: bool, **given: Any
) -> int:
    """Begin a search from a seed kernel and follow it until it rests. Ctrl-C ends the view, not the search."""
    from ..tools.config import load_config
    from ..tools.search.use import start

    config = load_config()
    given["device"] = given["device"] or config.device
    begun: list[str] = []
    given |= {"verify": not no_verify, "detached": not foreground, "on_begun": begun.append}
    try:
        result = start(seed, budget=budget, **given)
    except KeyboardInterrupt:
        for search_id in begun:
            click.echo(f"\nThe search rests; to go on with it: kforecast search resume {search_id}", err=True)
        raise
    if not (detach or foreground):
        result = _follow(result)
    return _tell(result, as_json)


@search_command.command("resume", epilog=EPILOG, short_help="Go on with a search.")
@click.argument("identity", metavar="ID")
@click.option("--extend", metavar="LIMITS", help="More budget, written as for `run`.")
@click.option("--detach", is_flag=True, help="Return at once.")
@json_option
def resume_command(*, identity: str, extend: str | None, detach: bool, as_json: bool) -> int:
    """Go on with a search that was stopped or paused, lost its worker, or gets more budget."""
    from ..tools.search.use import tell

    if extend is not None:
        tell(identity, "extend", budget=extend, by="cli")
    result = tell(identity, "resume", by="cli")
    return _tell(result if detach else _follow(result), as_json)


@search_command.command("stop", epilog=EPILOG, short_help="Stop a search.")
@click.argument("identity", metavar="ID")
@click.option("--pause", is_flag=True, help="Pause it: the same, but it counts as unfinished.")
@json_option
def stop_command(*, identity: str, pause: bool, as_json: bool) -> int:
    """Stop a search: measurements in flight are cancelled, what was measured stays. Stopping twice is no error."""
    from ..tools.search.use import look, tell

    result = tell(identity, "pause" if pause else "stop", by="cli")
    if result.state == "stopping":
        result = look(result.search_id, wait_s=15.0)
    return _tell(result, as_json)


@search_command.command("list", epilog=EPILOG, short_help="List searches.")
@click.option("--limit", "-n", type=click.IntRange(min=1, max=10_000), default=20, show_default=True, help="How many.")
@json_option
def list_command(*, limit: int, as_json: bool) -> int:
    """The searches begun last, newest first."""
    from ..store.database import Store
    from ..tools.search.use import listing
    from ..tools.words import ratio_text

    with Store.open_readonly() as store:
        found = listing(store, limit)
    if as_json:
        print_json({"searches": [{**one.model_dump(mode="json"), "worker": alive} for one, alive in found]})
        return 0
    if not found:
        click.echo(dim("  no search yet: kforecast search run SEED --budget 200m"))
        return 0
    states = [one.state if alive or one.state not in ("working", "stopping") else "worker gone" for one, alive in found]
    best = ["" if one.best_log2 is None else ratio_text(2.0**one.best_log2) for one, _ in found]
    click.echo(
        table(
            [
                Column("search", [one.id for one, _ in found]),
                Column("task", [one.task_name for one, _ in found]),
                Column("state", states),
                Column("best S", best, right=True),
                Column("measured", [str(one.counts.get("measured", 0)) for one, _ in found], right=True),
                Column("device", [shorten(one.device, 16) for one, _ in found], drop=2),
                Column("policy", [one.policy for one, _ in found], drop=1),
            ]
        )
    )
    return 0


@search_command.command("report", epilog=EPILOG, short_help="Write a search's report, or its best kernel.")
@click.argument("identity", metavar="ID")
@click.option("--out", "-o", type=click.Path(path_type=Path), metavar="FILE", help="The page. Default: ID.html here.")
@click.option("--save", type=click.Path(path_type=Path), metavar="FILE", help="Also write the best kernel's source.")
@click.option("--overwrite", is_flag=True, help="Replace files that are there.")
@json_option
def report_command(*, identity: str, out: Path | None, save: Path | None, overwrite: bool, as_json: bool) -> int:
    """Write a page that holds all of a search: best kernel and diff, curves, forecasts, decisions, spend, regret."""
    from ..store.database import Store
    from ..tools.search.best import best_as_file
    from ..tools.search.report import report_of
    from .search_report_page import search_report_page

    with Store.open_readonly() as store:
        report = report_of(store, identity)
        page = out or Path(f"{report.result.search_id}.html")
        _write(page, search_report_page(report), overwrite or out is None)
        if save is not None:
            _write(save, best_as_file(report.best), overwrite)
    if as_json:
        files = {"page": str(page), "kernel": None if save is None else str(save)}
        print_json({**report.result.model_dump(mode="json"), **files, "diff": report.diff})
    else:
        click.echo(f"  {report.result.summary}")
        click.echo(f"  page    {page}")
        if save is not None:
            click.echo(f"  kernel  {save}")
    return 0


def _write(path: Path, text: str, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise InputError("the file exists already", value=path, next_step="Choose another name, or add --overwrite.")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        step = "Check that the directory exists and is yours to write to."
        raise InputError(f"the file cannot be written ({error.strerror})", value=path, next_step=step) from error


def _follow(result: SearchResult) -> SearchResult:
    """Show a search as it goes on, until it rests or the user has seen enough."""
    from ..tools.search.use import look
    from .search_view import View

    with View() as view:
        try:
            while result.state in ("working", "stopping"):
                view.show(result)
                result = look(result.search_id, wait_s=1.0, cursor=result.cursor)
                if result.state == "working" and "worker is gone" in result.next and view.waited_long(result.cursor):
                    break
        except KeyboardInterrupt:
            click.echo(f"\nThe search goes on; to stop it: kforecast search stop {result.search_id}", err=True)
    return result


def _tell(result: SearchResult, as_json: bool) -> int:
    from ..tools.search.results import paused_by_trouble

    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        click.echo(search_page(result))
    if result.state == "failed":
        return _FAILED
    return DeviceError.exit_code if paused_by_trouble(result.state, result.reason) else 0


def search_page(result: SearchResult) -> str:
    """Where a search stands, for people."""
    from ..tools.words import interval_text, ratio_text, time_text

    lines = [paragraph(result.summary)]
    if result.reason:
        lines.append(paragraph(result.reason, label="why     "))
    if result.best is not None:
        best = result.best
        sure = "verified" if best.verified else "not verified"
        ends = interval_text(best.low, best.high)
        lines.append(f"  best    {bold(ratio_text(best.speedup) + 'x')}  ({ends})  {time_text(best.time_us)}  {sure}")
        lines.append(f"  kernel  {best.kernel_id}")
    spent = ", ".join(_spent(name, value, result.limits.get(name)) for name, value in result.spent.items())
    lines.append(paragraph(spent or "nothing yet", label="spent   "))
    tally = ", ".join(f"{count} {name}" for name, count in result.counts.items() if count)
    lines.append(paragraph(tally or "nothing yet", label="so far  "))
    for ask in result.asks:
        lines.append(paragraph(f"{ask.parent_id}: {ask.why}; {ask.bottleneck}", label="improve "))
    lines.append(paragraph(result.next, label="next    "))
    lines.append(dim(f"  {result.search_id}"[: page_width()]))
    return "\n".join(lines)


def _spent(name: str, value: float, limit: float | None) -> str:
    words = {"gpu_seconds": "GPU s", "wall_s": "s", "usd": "USD"}
    of = "" if limit is None else f" of {limit:g}"
    return f"{value:.4g}{of} {words.get(name, name)}"
