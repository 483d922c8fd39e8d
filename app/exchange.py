"""`kforecast export` and `kforecast import`: rows out of the store and into another."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from ..store.errors import InputError
from .exits import EPILOG
from .output import json_option, print_json


@click.command("export", epilog=EPILOG, short_help="Write rows to a file.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "-f",
    "file_format",
    type=click.Choice(["jsonl", "csv", "db"]),
    help="Default: what the file's suffix says. csv: measurements only, a table; jsonl and db can be imported.",
)
@click.option("--task", metavar="NAME", help="Only this task: a name or an id.")
@click.option("--device", "-d", metavar="NAME", help="Only this device.")
@click.option("--since", metavar="MOMENT", help="Only what was measured from then on, e.g. 2026-11-30 (UTC).")
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
@json_option
def export_command(
    *,
    path: Path,
    file_format: Any,
    task: str | None,
    device: str | None,
    since: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write measurements, with the kernels and tasks they refer to, to PATH.

    \b
      kforecast export runs.csv --task softmax_rows
      kforecast export runs.db && datasette runs.db
    """
    from ..store.database import Store
    from ..store.exchange import Filters, export
    from ..tools.filters import check_task

    with Store.open_readonly() as store:
        check_task(store, task)
        filters = Filters(task=task, device=device, since=_moment(since))
        counts = export(store, path, filters=filters, format=file_format, overwrite=overwrite)
    if as_json:
        print_json({"path": str(path), "written": counts})
    else:
        click.echo(f"{path}: {_counted(counts)}")


@click.command("import", epilog=EPILOG, short_help="Read exported rows.")
@click.argument("path", type=click.Path(path_type=Path))
@json_option
def import_command(*, path: Path, as_json: bool) -> None:
    """Read what `kforecast export` wrote as .jsonl (also gzipped) or .db. All of it or nothing; twice is no harm."""
    from ..store.database import Store
    from ..store.exchange import import_

    with Store.open() as store:
        counts = import_(store, path)
    if as_json:
        print_json({"path": str(path), "added": counts.added, "skipped": counts.skipped})
    else:
        click.echo(f"{path}: added {_counted(counts.added)}; already here: {_counted(counts.skipped)}")


def _counted(counts: dict[str, int]) -> str:
    many = {"search": "searches"}
    parts = [f"{count} {kind if count == 1 else many.get(kind, f'{kind}s')}" for kind, count in counts.items() if count]
    return ", ".join(parts) or "nothing"


def _moment(text: str | None) -> str | None:
    """A date or moment as the store writes moments; without an offset it is UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        step = "Write it as 2026-11-30 or 2026-11-30T12:00:00."
        raise InputError("--since is no moment", value=text, next_step=step) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
