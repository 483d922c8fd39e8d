"""`kforecast quarantine`: measurements that nobody believes yet, and clearing one."""

from __future__ import annotations

import click

from .exits import EPILOG
from .output import Column, dim, json_option, paragraph, print_json, shorten, table


@click.group("quarantine", epilog=EPILOG, invoke_without_command=True, short_help="Measurements nobody believes yet.")
@json_option
@click.pass_context
def quarantine_command(ctx: click.Context, as_json: bool) -> None:
    """Measurements too good to be believed: kept, but no sibling, no calibration and no best kernel comes from them.

    Without a command it lists them. Only a person clears one, after looking for work that the kernel skips.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_command, as_json=as_json)


@quarantine_command.command("list", epilog=EPILOG)
@click.option("--task", metavar="NAME", help="Only this task.")
@click.option("--device", "-d", metavar="NAME", help="Only this device.")
@json_option
def list_command(*, task: str | None = None, device: str | None = None, as_json: bool = False) -> None:
    """The quarantined measurements, newest first, and what for."""
    from ..tools.quarantine import quarantined
    from ..tools.words import ratio_text, time_text

    lines = quarantined(task=task, device=device)
    if as_json:
        print_json({"quarantined": [line.model_dump(mode="json") for line in lines]})
        return
    if not lines:
        click.echo("nothing is in quarantine")
        return
    click.echo(
        table(
            [
                Column("measured", [line.measurement_id for line in lines]),
                Column("kernel", [shorten(line.name, 20) for line in lines]),
                Column("task", [line.task for line in lines], drop=3),
                Column("S", [ratio_text(line.speedup) for line in lines], right=True, drop=2),
                Column("time", [time_text(line.time_us) for line in lines], right=True),
                Column("floor", [_percent(line.percent_of_floor) for line in lines], right=True, drop=1),
            ]
        )
    )
    for line in lines:
        click.echo(dim(paragraph(line.reason, label=f"{line.measurement_id}  ")))


@quarantine_command.command("show", epilog=EPILOG)
@click.argument("identity", metavar="ID")
@json_option
def show_command(*, identity: str, as_json: bool) -> None:
    """One measurement in full."""
    from ..tools.status import look_up
    from .measure_page import measurement_page

    result = look_up(identity)
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        click.echo(measurement_page(result))


@quarantine_command.command("clear", epilog=EPILOG)
@click.argument("identity", metavar="ID")
@json_option
def clear_command(*, identity: str, as_json: bool) -> None:
    """Believe a measurement from now on."""
    from ..tools.quarantine import clear

    line = clear(identity)
    if as_json:
        print_json({"cleared": line.model_dump(mode="json")})
    else:
        click.echo(paragraph(f"{line.name} is believed from now on. It was in quarantine: {line.reason}", indent=0))


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}%"
