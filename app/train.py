"""`kforecast train`: make a forecaster out of what is measured."""

from __future__ import annotations

from pathlib import Path

import click

from .exits import EPILOG
from .output import Progress, json_option, paragraph, print_json


@click.command("train", epilog=EPILOG, short_help="Train a forecaster.")
@click.argument("forecaster", type=click.Choice(["learned"]))
@click.option("--on", metavar="FILE", help="A store (.db) or an export (.jsonl, .jsonl.gz). Default: your store.")
@click.option("--device", "-d", metavar="NAME", help="Only what was measured on this device.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to write it. Default: beside your store, in use.")
@json_option
def train_command(*, forecaster: str, on: str | None, device: str | None, out: Path | None, as_json: bool) -> None:
    """Train a forecaster on measured kernels of two tasks or more: `learned`, for when no model is there.

    \b
      kforecast train learned
      kforecast train learned --on atlas.db --device cuda:0
    """
    from ..tools.learned import train_learned

    with Progress() as progress:
        progress(f"training {forecaster}")
        result = train_learned(on=on, device=device, out=out)
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        click.echo(paragraph(result.summary, indent=0))
        click.echo(paragraph(result.path, label="written  "))
        click.echo(paragraph(result.next, label="next     "))
