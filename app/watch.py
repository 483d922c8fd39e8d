"""`kforecast tui`: watch searches, forecasts and devices live, in the terminal."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from pathlib import Path

import click

from ..store.errors import InputError
from .exits import EPILOG


@click.command("tui", epilog=EPILOG, short_help="Watch everything live.")
@click.argument("identity", required=False, metavar="[SEARCH]")
@click.option("--theme", metavar="NAME", help="Colours: kforecast, kforecast-light, ansi-dark, ansi-light, ...")
@click.option("--watch-loop", type=click.Path(path_type=Path), hidden=True)
def tui_command(*, identity: str | None, theme: str | None, watch_loop: Path | None) -> int:
    """Watch searches, forecasts, kernels and devices live; with a SEARCH's id, that one first.

    It reads the store and never disturbs what works on it. `?` shows the keys, `q` quits. For scripts there are
    `kforecast status --json` and `kforecast search list --json`.
    """
    drawn = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))  # on stderr, as Textual does it
    if not drawn or os.environ.get("TERM") == "dumb":
        step = "Run it in a terminal, without redirections; for scripts there is `kforecast status --json`."
        raise InputError("the tui needs a terminal", next_step=step)
    from ..store.database import Store
    from ..store.paths import store_path
    from ..store.searches import resolve
    from ..tools.config import load_config
    from .tui.app import Viewer

    config = load_config()
    bring_up_to_date(store_path())
    if identity is not None:
        with Store.open_readonly() as store:
            identity = resolve(store, identity).id
    viewer = Viewer
    if watch_loop is not None:  # measuring, see scripts/bench_tui.py
        from .tui.loop_watch import WatchedViewer

        WatchedViewer.watch_log = watch_loop
        viewer = WatchedViewer
    app = viewer(theme=theme or config.theme, keys=config.keys, first=identity)
    gc.freeze()  # what is loaded by now stays; a collection that looks at all of it stops the view for a moment
    app.run()
    return app.return_code or 0


def bring_up_to_date(path: Path) -> None:
    """Migrate a store that an older kforecast wrote. What else may be wrong with it, the tui tells and waits for."""
    from ..store.database import Store
    from ..store.errors import StoreError

    if path.exists():
        with suppress(StoreError):
            Store.open(path, timeout_s=1.0).close()
