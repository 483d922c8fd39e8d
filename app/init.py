"""`kforecast init`: the server's entry in a client's configuration, added without touching anything else there."""

from __future__ import annotations

from pathlib import Path

import click

from .clients import CLIENTS, entered, places
from .exits import EPILOG
from .output import json_option, print_json


@click.command("init", epilog=EPILOG, short_help="Enter the MCP server into a client's configuration.")
@click.argument("client", type=click.Choice(sorted(CLIENTS)))
@click.option("--user", "for_user", is_flag=True, help="In your own configuration instead of this project's.")
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="In this file instead of the usual one.")
@click.option("--root", "roots", multiple=True, type=click.Path(path_type=Path), help="Passed on to `kforecast mcp`.")
@click.option("--dry-run", "-n", is_flag=True, help="Print what would be written, and write nothing.")
@json_option
def init_command(
    *, client: str, for_user: bool, file: Path | None, roots: tuple[Path, ...], dry_run: bool, as_json: bool
) -> None:
    """Enter `kforecast mcp` into the configuration of a coding agent.

    The file's other contents stay as they are; an entry that is there already and differs is an error, never replaced.
    Doing it twice is doing it once.

    \b
      kforecast init claude              .mcp.json of this project
      kforecast init codex --dry-run     what ~/.codex/config.toml would become
    """
    where = file or places(client, for_user=for_user)
    result = entered(client, where, roots)
    if result.changes and not dry_run:
        result.write()
    if as_json:
        done = result.changes and not dry_run
        print_json({"client": client, "file": str(where), "written": done, "entry": result.entry})
    elif not result.changes:
        click.echo(f"{where} has the entry already; nothing to do.")
    elif dry_run:
        click.echo(f"{where} would become:\n\n{result.text}", nl=False)
    else:
        click.echo(
            f"Entered kforecast into {where}. Start {CLIENTS[client].title} anew, then ask it to list its tools."
        )
