"""`kforecast mcp`: the server that coding agents call."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .exits import EPILOG
from .output import print_json


@click.command("mcp", epilog=EPILOG, short_help="The MCP server that coding agents call.")
@click.option(
    "--root", "roots", multiple=True, type=click.Path(path_type=Path), help="A folder whose files may be named."
)
@click.option("--http", is_flag=True, help="Serve HTTP instead of standard input and output.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: where; others need a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=8733, show_default=True, help="With --http.")
@click.option("--token", envvar="KFORECAST_MCP_TOKEN", help="With --http: ask for it. Better in KFORECAST_MCP_TOKEN.")
@click.option("--json", "as_json", is_flag=True, help="Print the tools as an agent sees them, and end.")
def mcp_command(*, roots: tuple[Path, ...], http: bool, host: str, port: int, token: str | None, as_json: bool) -> None:
    """Serve the Model Context Protocol on standard input and output: forecast, measure, search for coding agents.

    Agents start it themselves: `kforecast init CLIENT` writes the entry. They may name kernel files in the working
    directory, in each --root, and in the `roots` of the configuration.
    """
    from ..tools.mcp.server import make_server, plain_tools

    server = make_server(roots)
    if as_json:
        print_json({"tools": plain_tools(server)})
    elif http:
        from ..tools.mcp.http import serve_http

        click.echo(f"kforecast mcp at http://{host}:{port}/mcp", err=True)
        serve_http(server, host=host, port=port, token=token)
    else:
        if sys.stdin.isatty():
            click.echo(
                "Waiting for a client on standard input; `kforecast init CLIENT` lets an agent start this.", err=True
            )
        server.run("stdio")
