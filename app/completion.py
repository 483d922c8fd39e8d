"""`kforecast completion`: the completion script of a shell, on stdout."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ..store.errors import UnsupportedError
from .exits import EPILOG
from .output import json_option, print_json

_WHERE = {
    "bash": 'eval "$(kforecast completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(kforecast completion zsh)" in ~/.zshrc, after compinit',
    "fish": "kforecast completion fish > ~/.config/fish/completions/kforecast.fish",
}


@click.command("completion", epilog=EPILOG, short_help="Completion script of a shell.")
@click.argument("shell", type=click.Choice(list(_WHERE)))
@json_option
@click.pass_context
def completion_command(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print the completion script of a shell.

    \b
      bash   eval "$(kforecast completion bash)" in ~/.bashrc
      zsh    eval "$(kforecast completion zsh)" in ~/.zshrc, after compinit
      fish   kforecast completion fish > ~/.config/fish/completions/kforecast.fish
    """
    completion = get_completion_class(shell)
    if completion is None:
        raise UnsupportedError(
            "this click knows no completion for the shell", value=shell, next_step="Use another shell."
        )
    # `source` alone: the class's own constructor path would run the shell to ask for its version.
    script = completion(ctx.find_root().command, {}, "kforecast", "_KFORECAST_COMPLETE")
    text = script.source_template % script.source_vars()
    if as_json:
        print_json({"shell": shell, "script": text, "install": _WHERE[shell]})
    else:
        click.echo(text)
