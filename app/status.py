"""`kforecast status`: what was measured, what waits, who holds the devices."""

from __future__ import annotations

from contextlib import suppress

import click

from ..store.errors import InputError, StoreError
from .exits import EPILOG
from .output import json_option, print_json


@click.command("status", epilog=EPILOG, short_help="What was measured and what waits.")
@click.argument("identity", required=False, metavar="[ID]")
@click.option("--limit", "-n", type=click.IntRange(min=1, max=10_000), default=10, show_default=True, help="How many.")
@click.option("--task", metavar="NAME", help="Only this task.")
@click.option("--device", "-d", metavar="NAME", help="Only this device.")
@click.option("--follow", "-f", is_flag=True, help="Stay and show what changes: requests, forecasts, searches too.")
@click.option("--plain", is_flag=True, help="With --follow: a line a change, as where stdout is no terminal.")
@json_option
def status_command(
    *,
    identity: str | None,
    limit: int,
    task: str | None,
    device: str | None,
    follow: bool,
    plain: bool,
    as_json: bool,
) -> None:
    """The last measurements, what waits, and who holds a device; with an ID, that measurement or request in full.

    \b
      kforecast status --follow                   on a terminal one view that renews itself; Ctrl-C ends it
      kforecast status --follow | tee runs.log    a line a change
      kforecast status --follow --json            an object a change, one a line
    """
    if identity is not None:
        if task or device or follow:
            step = "Give either an id, or filters and --follow."
            raise InputError("an id names one row; filters have nothing to do", value=identity, next_step=step)
        _one(identity, as_json)
        return
    if follow:
        from ..tools.following import Follower
        from ..tools.status import status
        from .follow import follow as follow_store

        with suppress(StoreError):  # what the store is in, the follower tells, and waits
            status(limit=1, task=task)  # says so where there is no such task
        follow_store(Follower(task=task, device=device), limit=limit, plain=plain, as_json=as_json)
        return
    if plain:
        step = "Add --follow, or pipe the page: it is plain then."
        raise InputError("--plain is for --follow", value="--plain", next_step=step)
    from ..tools.status import status
    from .status_page import status_blocks

    now = status(limit=limit, task=task, device=device)
    if as_json:
        print_json(now.model_dump(mode="json"))
    else:
        click.echo("\n\n".join("\n".join(block) for block in status_blocks(now)))


def _one(identity: str, as_json: bool) -> None:
    from ..tools.status import look_up
    from .measure_page import measurement_page

    result = look_up(identity)
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        click.echo(measurement_page(result))
