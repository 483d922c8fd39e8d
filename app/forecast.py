"""`kforecast forecast`: how fast will it be, how sure is that, and is it worth measuring?"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from ..store.errors import InputError, KforecastError
from .exits import EPILOG
from .launch_options import launch_options, read_launch
from .output import json_option, print_json

if TYPE_CHECKING:
    from ..tools.forecast_results import ForecastResult


@click.command("forecast", epilog=EPILOG, short_help="Forecast kernels.")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option("--baseline", "-b", metavar="KERNEL", help="seed (default), tuned, library, a file or a kernel id.")
@click.option("--task", metavar="NAME", help="The task, where the header names none; `kforecast tasks` lists them.")
@click.option("--device", "-d", metavar="NAME", help="The device it is about, e.g. cpu. Default: the language decides.")
@click.option(
    "--own",
    metavar="JSON",
    help="Your own {p_correct, p_bins: [8]}, or a list of them, one a file; - reads it from stdin.",
)
@click.option("--forecaster", metavar="NAME", help="Whose own probabilities they are; its record is kept by that name.")
@click.option("--alpha", type=float, metavar="SHARE", help="Share of trusted answers that may be wrong. Default: 0.1.")
@click.option(
    "--detail",
    type=click.Choice(["concise", "brief", "full"]),
    default="concise",
    help="brief: what is known, measured siblings first; full: with the sources.",
)
@click.option("--backend", metavar="NAME", help="learned, base-rate or litellm:MODEL. Default: the best that is free.")
@click.option("--yes", "consent", is_flag=True, help="Agree, for good, that sources go to the hosted model.")
@click.option("--max-usd", type=click.FloatRange(0), metavar="USD", help="Of all processes today, on models.")
@launch_options
@json_option
def forecast_command(
    *,
    files: tuple[str, ...],
    baseline: str | None,
    task: str | None,
    device: str | None,
    own: str | None,
    forecaster: str | None,
    alpha: float | None,
    detail: Any,
    backend: str | None,
    consent: bool,
    max_usd: float | None,
    as_json: bool,
    **launch: Any,
) -> int:
    """Forecast kernels against a baseline: how likely is each to be correct, how much faster, and is that sure enough?

    The answer is to trust the forecast, to measure, or to drop the idea for now. Own probabilities (a model's or a
    person's) are the best forecast; --detail brief shows what to base them on.

    \b
      kforecast forecast idea.c
      kforecast forecast ideas/*.c --baseline tuned --detail brief
      kforecast forecast idea.c --forecaster me --own '{"p_correct": 0.9, "p_bins": [0,0,0,0.1,0.5,0.3,0.1,0]}'
    """
    from ..tools.backends import ConsentNeeded
    from ..tools.config import load_config
    from ..tools.forecast import forecast_many
    from ..tools.kernels import Asked

    given = read_launch(launch)
    asked = Asked(task, given["geometry"], given["settings"], given["override"], given["options"])
    common: dict[str, Any] = {
        "baseline": baseline,
        "device": device or load_config().device,
        "own": read_own(own, forecaster),
        "alpha": alpha,
        "detail": detail,
        "backend": backend,
        "max_usd": max_usd,
        "asked": asked,
    }
    try:
        results = forecast_many(files, **common, consent=consent)
    except ConsentNeeded as needed:
        if as_json or not _agrees(needed):
            raise
        results = forecast_many(files, **common, consent=True)
    _print(results, files, as_json)
    errors = [result.exit_code for result in results if isinstance(result, KforecastError)]
    compiled = all(r.compile is None or r.compile.ok for r in results if not isinstance(r, KforecastError))
    return errors[0] if errors else 0 if compiled else 1


def read_own(text: str | None, forecaster: str | None) -> list[dict[str, Any]] | None:
    """`--own` and `--forecaster` as the tool takes them. Raises InputError for text that is no JSON of that shape."""
    if text is None:
        if forecaster is not None:
            step = "Add --own, or leave --forecaster out."
            raise InputError("--forecaster names whose own probabilities?", value=forecaster, next_step=step)
        return None
    step = 'Write it as \'{"p_correct": 0.9, "p_bins": [0,0,0,0.1,0.5,0.3,0.1,0]}\', or a list of these, one a file.'
    try:
        read = json.loads(sys.stdin.read() if text == "-" else text)
    except json.JSONDecodeError as error:
        raise InputError(f"--own is not JSON ({error})", value=text[:60], next_step=step) from None
    entries = read if isinstance(read, list) else [read]
    if not all(isinstance(entry, dict) for entry in entries):
        raise InputError("--own must hold objects", value=text[:60], next_step=step)
    return [{"forecaster": forecaster, **entry} for entry in entries]


def _agrees(needed: KforecastError) -> bool:
    """Ask on a terminal; elsewhere nobody is there to ask."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    click.echo(f"{needed.what}.", err=True)
    return click.confirm("Send them, now and from now on?", default=False, err=True)


def _print(results: list[ForecastResult | KforecastError], files: tuple[str, ...], as_json: bool) -> None:
    from .forecast_page import forecast_page, forecasts_page

    if len(results) == 1 and isinstance(results[0], KforecastError):
        raise results[0]
    if as_json:
        plain = [
            {"file": file, **(r.as_dict() if isinstance(r, KforecastError) else r.model_dump(mode="json"))}
            for file, r in zip(files, results, strict=True)
        ]
        print_json(plain[0] if len(plain) == 1 else {"results": plain})
    elif len(results) == 1 and not isinstance(results[0], KforecastError):
        click.echo(forecast_page(results[0], files[0]))
    else:
        click.echo(forecasts_page(results, files))
