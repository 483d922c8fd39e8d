"""The command line's front door: commands load on demand, every error is told once, exit codes are one table."""

from __future__ import annotations

import difflib
import json
import os
import signal
import sys
import traceback
from importlib import import_module
from typing import Any, NoReturn

import click

from .. import __version__
from ..store.errors import InputError, KforecastError, refused_by_system
from .exits import EPILOG

COMMANDS = {
    "measure": ("measure", "Measure kernels: verdict, times, speedup with its interval."),
    "forecast": ("forecast", "Forecast kernels: how likely correct, how much faster, is it worth measuring."),
    "facts": ("facts", "What is known of a kernel without running it."),
    "audit": ("audit", "How a kernel computes; what a measurement looked at."),
    "search": ("search", "Search for faster kernels under a budget: run, resume, stop, list, report."),
    "tasks": ("tasks", "List tasks, show one, copy its kernels, check one of your own."),
    "status": ("status", "What was measured, what waits, who holds the devices."),
    "tui": ("watch", "Watch searches, forecasts and devices live."),
    "mcp": ("mcp", "The MCP server that coding agents call."),
    "init": ("init", "Enter that server into the configuration of Claude Code, Codex, Cursor, ..."),
    "eval": ("evaluate", "What forecasters are worth on measured pairs."),
    "train": ("train", "Train a forecaster on what is measured."),
    "quarantine": ("quarantine", "Measurements that nobody believes yet: list, show, clear."),
    "doctor": ("doctor", "What this machine has, what is missing, what to do about it."),
    "export": ("exchange", "Write the store's rows to a file: jsonl, csv or db."),
    "import": ("exchange", "Read rows that another store exported."),
    "demo": ("demo", "Watch recorded searches; no GPU needed."),
    "gc": ("gc", "Forget what is old and needed by nothing."),
    "completion": ("completion", "Print the completion script of a shell."),
}


class Commands(click.Group):
    """A group that imports a command's module only when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f".{COMMANDS[cmd_name][0]}", __package__)
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            step = f"{hint}`kforecast --help` lists the commands."
            if os.path.exists(name):  # noqa: PTH110 -- pathlib is not loaded yet, and need not be
                step = f"To measure that file: `kforecast measure {name}`."
            raise InputError("unknown command", value=name, next_step=step)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
)
@click.version_option(__version__, prog_name="kforecast", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, envvar="KFORECAST_DEBUG", help="Show tracebacks of unexpected errors.")
def cli(debug: bool) -> None:
    """Measure kernels in a way that is hard to fool, and remember every result.

    Start with: kforecast measure FILE.c
    """
    del debug  # read by `main`, which also has to know it when parsing fails


_interrupts: list[int] = []
"""Every Ctrl-C so far: libraries that are being imported turn it into an ImportError, or drop it."""


def main() -> NoReturn:
    """Run the command line and exit with the code that EXIT_CODES documents."""
    _open_what_is_closed()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where the shell has it ignored
        signal.signal(signal.SIGINT, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:]))


def _open_what_is_closed() -> None:
    """Standard streams that the caller closed go nowhere: else the next file to be opened would take their place."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            place = os.open(os.devnull, os.O_RDWR)
            if place != number:
                os.dup2(place, number)
                os.close(place)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 -- open to the end


def _interrupt(number: int, frame: object) -> NoReturn:
    _interrupts.append(number)
    raise KeyboardInterrupt


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; every error is told on stderr, and on stdout as JSON after `--json`."""
    if "_KFORECAST_COMPLETE" in os.environ:
        cli.main(arguments, prog_name="kforecast")  # the shell asks for completions
    try:
        return _invoke(arguments)
    except KforecastError as error:
        return _tell(error, arguments)
    except click.ClickException as error:
        return _tell(_as_input_error(error), arguments)
    except (KeyboardInterrupt, click.Abort):
        return _tell_interrupt(arguments)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:  # noqa: BLE001 -- the outermost frame: it tells every fault of ours, and how to see more
        return _tell_unexpected(error, arguments)


def _invoke(arguments: list[str]) -> int:
    """Not `cli.main`: it ends with code 1 when a pipe closes, which here says that a kernel is not ok."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    extra: dict[str, Any] = {"color": False} if plain else {}
    try:
        with cli.make_context("kforecast", list(arguments), **extra) as ctx:
            code = cli.invoke(ctx)
    except click.exceptions.Exit as end:
        code = end.exit_code
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _tell(error: KforecastError, arguments: list[str]) -> int:
    value = "" if error.value is None else f": {error.value}"
    click.echo(f"{click.style('error:', fg='red', bold=True)} {error.what}{value}", err=True)
    click.echo(f"       {error.next_step}", err=True)  # further lines as they are: they may be there to paste
    _answer(error.as_dict(), arguments)
    if _debugging(arguments):
        traceback.print_exception(error)
    return error.exit_code


def _answer(error: dict[str, Any], arguments: list[str]) -> None:
    """The error as data, after `--json`; it may be stdout itself that cannot be written any more."""
    if "--json" not in arguments:
        return
    try:
        click.echo(json.dumps(error))
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _tell_unexpected(error: Exception, arguments: list[str]) -> int:
    if _interrupts:
        return _tell_interrupt(arguments)
    refused = refused_by_system(error)
    return _tell_fault(error, arguments) if refused is None else _tell(refused, arguments)


def _tell_interrupt(arguments: list[str]) -> int:
    step = "Finished measurements are kept; `kforecast status` lists them."
    click.echo(f"\nInterrupted. {step}", err=True)
    _answer({"error": "Interrupted", "what": "interrupted", "value": None, "next": step, "exit_code": 130}, arguments)
    return 130


def _tell_fault(error: Exception, arguments: list[str]) -> int:
    what = f"{type(error).__name__}: {error}"
    click.echo(f"{click.style('error:', fg='red', bold=True)} a fault in kforecast: {what}", err=True)
    if _debugging(arguments):
        traceback.print_exception(error)
    else:
        click.echo(
            "       For the traceback: `kforecast --debug …` with the same arguments; please report it.", err=True
        )
    step = "Run it again with `kforecast --debug` and report the traceback."
    _answer({"error": "Fault", "what": what, "value": None, "next": step, "exit_code": 70}, arguments)
    return 70


def _debugging(arguments: list[str]) -> bool:
    return "--debug" in arguments[:1] or bool(os.environ.get("KFORECAST_DEBUG"))


def _as_input_error(error: click.ClickException) -> InputError:
    command = "kforecast"
    if isinstance(error, click.UsageError) and error.ctx is not None:
        command = error.ctx.command_path
    return InputError(error.format_message().rstrip("."), next_step=f"See `{command} --help`.")
