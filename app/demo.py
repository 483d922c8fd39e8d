"""`kforecast demo`: recorded searches, played through the ordinary terminal view."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..store.errors import InputError
from .exits import EPILOG
from .output import json_option, print_json

if TYPE_CHECKING:
    from ..tools.demo.recording import Recording

_SLOWEST, _FASTEST = 0.1, 1000.0


@click.command("demo", epilog=EPILOG, short_help="Watch recorded searches.")
@click.argument("recording", required=False, type=click.Path(path_type=Path), metavar="[FILE]")
@click.option(
    "--speed",
    type=click.FloatRange(_SLOWEST, _FASTEST),
    default=1.0,
    show_default=True,
    help="How fast; 1 takes a minute and a half. In the view: < and >.",
)
@click.option("--theme", metavar="NAME", help="Colours, as for `kforecast tui`.")
@json_option
def demo_command(*, recording: Path | None, speed: float, theme: str | None, as_json: bool) -> int:
    """Watch searches that were recorded on a GPU, as `kforecast tui` shows searches that go on. No GPU is needed.

    Everything is real but the time: which kernels were proposed, what was forecast of them, what was measured. Your
    store is not touched. With --json: what is in the recording, without showing it.
    """
    from ..tools.demo.recording import SHIPPED, read

    drawn = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)) and os.environ.get("TERM") != "dumb"
    if not as_json and not drawn:
        step = "Run it in a terminal, without redirections; `kforecast demo --json` says what is in the recording."
        raise InputError("the demo needs a terminal", next_step=step)
    found = read(recording or SHIPPED)
    if as_json:
        print_json(described(found))
        return 0
    return _play(found, speed, theme)


def described(recording: Recording) -> dict[str, Any]:
    """A recording as plain data. best: S of the best measured kernel against its search's seed."""
    return {
        "about": recording.about,
        "recorded": recording.recorded,
        "seconds": recording.seconds,
        "searches": [
            {
                "search_id": search.id,
                "task": search.task_name,
                "device": search.device,
                "state": search.state,
                "policy": search.policy,
                "forecaster": search.forecaster,
                "events": len(log),
                "counts": search.counts,
                "spent": search.spent,
                "best": None if search.best_log2 is None else 2.0**search.best_log2,
            }
            for search, log in recording.searches
        ],
    }


def _play(recording: Recording, speed: float, theme: str | None) -> int:
    from ..tools.config import load_config
    from ..tools.demo.places import place_of_its_own
    from ..tools.demo.player import Player
    from .tui.demo import DemoViewer

    config = load_config()
    with place_of_its_own() as path, Player(recording, path, speed=speed) as player:
        first = player.prepare()
        viewer = DemoViewer(player, path, first=first, theme=theme or config.theme)
        viewer.run()
        return viewer.return_code or 0
