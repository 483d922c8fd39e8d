"""`kforecast status`: what was measured, what waits, who holds the devices."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ..store.errors import InputError
from .exits import EPILOG
from .output import Column, bold, dim, json_option, print_json, shorten, table

if TYPE_CHECKING:
    from ..tools.status import MeasurementLine, Status


@click.command("status", epilog=EPILOG, short_help="What was measured and what waits.")
@click.argument("identity", required=False, metavar="[ID]")
@click.option("--limit", "-n", type=click.IntRange(min=1, max=10_000), default=10, show_default=True, help="How many.")
@click.option("--task", metavar="NAME", help="Only this task.")
@click.option("--device", "-d", metavar="NAME", help="Only this device.")
@json_option
def status_command(*, identity: str | None, limit: int, task: str | None, device: str | None, as_json: bool) -> None:
    """The last measurements, what waits, and who holds a device; with an ID, that measurement or request in full."""
    if identity is not None:
        if task or device:
            step = "Give either an id or filters."
            raise InputError("an id names one row; filters have nothing to do", value=identity, next_step=step)
        _one(identity, as_json)
        return
    from ..tools.status import status

    now = status(limit=limit, task=task, device=device)
    if as_json:
        print_json(now.model_dump(mode="json"))
    else:
        click.echo(_page(now))


def _one(identity: str, as_json: bool) -> None:
    from ..tools.status import look_up
    from .measure_page import measurement_page

    result = look_up(identity)
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        click.echo(measurement_page(result))


def _page(now: Status) -> str:
    from ..tools.words import ratio_text, time_text

    blocks = [f"{bold('store')}  {now.store}{'' if now.store_exists else '  (not made yet)'}"]
    holders = [
        f"  {h.device or 'a device'}  process {h.pid}  {h.purpose}  {_ago(h.since)}".rstrip() for h in now.holders
    ]
    blocks.append("\n".join([bold("devices in use"), *(holders or [dim("  none")])]))
    if now.unfinished:
        waiting = table(
            [
                Column("request", [line.request_id for line in now.unfinished]),
                Column("device", [line.device for line in now.unfinished]),
                Column("state", [line.state for line in now.unfinished]),
                Column("before it", ["" if line.before is None else str(line.before) for line in now.unfinished], True),
                Column("client", [line.client for line in now.unfinished], drop=2),
                Column("progress", [shorten(line.progress, 40) for line in now.unfinished], drop=1),
            ]
        )
        blocks.append(f"{bold('unfinished')}\n{waiting}")
    if now.measurements:
        rows = now.measurements
        recent = table(
            [
                Column("when", [_ago(row.created_at) for row in rows], right=True),
                Column("kernel", [shorten(row.name, 20) for row in rows]),
                Column("task", [row.task for row in rows], drop=2),
                Column("verdict", [_verdict(row) for row in rows]),
                Column("S", [ratio_text(row.speedup) for row in rows], right=True),
                Column("time", [time_text(row.time_us) for row in rows], right=True),
                Column("device", [row.device for row in rows], drop=3),
                Column("id", [row.measurement_id for row in rows], drop=1),
            ]
        )
        blocks.append(f"{bold('last measurements')}\n{recent}")
    else:
        blocks.append(f"{bold('last measurements')}\n{dim('  none yet: kforecast measure FILE')}")
    return "\n\n".join(blocks)


def _verdict(row: MeasurementLine) -> str:
    word = row.verdict if row.comparison == "none" else row.comparison
    return f"{word} (quarantined)" if row.quarantined else word


def _ago(moment: str | None) -> str:
    """How long ago a UTC moment was: `12 s`, `5 min`, `3 h`, else its date."""
    if moment is None:
        return ""
    then = datetime.fromisoformat(moment)
    seconds = (datetime.now(UTC) - then).total_seconds()
    for limit, scale, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{max(0, seconds) / scale:.0f} {unit}"
    return then.date().isoformat()
