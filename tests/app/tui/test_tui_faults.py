"""What the tui does when its store is locked, gone, replaced or newer; and that it never asks one while it draws."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from driving import Seat, drive
from grown import Grown

from kforecast.app import main
from kforecast.app.tui.app import Viewer
from kforecast.app.tui.canvas import Canvas
from kforecast.app.watch import bring_up_to_date
from kforecast.store import schema
from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.tools.viewing.watch import Watch


def test_a_locked_store_is_told_and_comes_back(grown: Grown) -> None:
    path = grown.path
    grown.close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN IMMEDIATE")
    holder.execute("UPDATE searches SET events = events")

    async def act(seat: Seat) -> None:
        await seat.until(lambda: "store locked" in seat.seen(), "the lock told")
        await seat.press("question_mark")
        await seat.until(lambda: "Help" in seat.seen(), "keys to work meanwhile")
        await seat.press("escape")
        holder.execute("ROLLBACK")
        holder.close()
        await seat.rows("#searches", 1)
        await seat.until(lambda: "live" in seat.seen() and "locked" not in seat.seen(), "it to be over")

    drive(act, path)


def test_a_deleted_store_is_told_keeps_what_is_shown_and_a_new_one_is_read(grown: Grown) -> None:
    grown.child(log2=0.5)

    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        grown.close()
        for file in grown.path.parent.glob("k.db*"):
            file.unlink()
        await seat.until(lambda: "no store" in seat.seen(), "the loss told")
        assert seat.table("#searches").rows.total == 1
        await seat.press("plus", "ctrl+u", *"5m", "enter")
        await seat.until(lambda: "The store is gone" in seat.seen(), "an action refused")
        assert not grown.path.exists()
        again = Grown(grown.path)
        await seat.until(lambda: seat.table("#searches").key == again.search_id, "the new store")
        again.close()

    drive(act, grown.path)


def test_a_store_of_a_newer_kforecast_is_told(grown: Grown) -> None:
    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        with sqlite3.connect(grown.path) as db:
            db.execute("PRAGMA user_version = 99")
        await seat.until(lambda: "newer kforecast" in seat.seen(), "the schema told")
        await seat.press("q")

    drive(act, grown.path)


def test_no_store_yet_says_how_to_begin(tmp_path: Path) -> None:
    async def act(seat: Seat) -> None:
        await seat.until(lambda: "kforecast measure FILE" in seat.seen(), "what to do")
        Store.open(tmp_path / "k.db").close()
        await seat.until(lambda: "No search yet" in seat.seen(), "the store that came")

    drive(act, tmp_path / "k.db")


def test_the_store_is_only_read_and_never_from_the_thread_that_draws(
    grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every use of a connection while pages are opened, scrolled and drawn comes from the reader's thread."""
    for index in range(60):
        grown.child(log2=index / 100)
    threads: set[str] = set()
    writable: set[bool] = set()
    using = Store._using

    def noted(self: Store):  # type: ignore[no-untyped-def]
        if self is not grown.store:
            threads.add(threading.current_thread().name)
            writable.add(self.writable)
        return using(self)

    monkeypatch.setattr(Store, "_using", noted)

    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        await seat.press("enter")
        await seat.rows("#tree", 61)
        await seat.press("G", "pageup", "v", "v", "tab", "j", "tab", "j", "3", "4", "5", "1")
        for canvas in seat.app.screen.query(Canvas):
            for y in range(canvas.size.height):
                canvas.render_line(y)

    drive(act, grown.path)
    assert len(threads) == 1 and threads.pop().startswith("store-reader")
    assert writable == {False}


def test_a_frozen_view_stands_still_until_it_is_told_to_go_on(grown: Grown) -> None:
    async def act(seat: Seat) -> None:
        await seat.press("2")
        await seat.rows("#tree", 1)
        await seat.press("z")
        await seat.until(lambda: "frozen" in seat.seen(), "it to say so")
        grown.child(log2=0.5)
        await seat.pilot.pause(0.8)
        assert seat.table("#tree").rows.total == 1
        await seat.press("z")
        await seat.rows("#tree", 2)

    drive(act, grown.path)


def test_keys_can_be_changed_and_themes_chosen(grown: Grown) -> None:
    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        assert seat.app.theme == "kforecast-light"
        await seat.press("Z")
        assert seat.app.screen_stack[-1].__class__.__name__ == "HelpScreen"

    drive(act, grown.path, theme="kforecast-light", keys={"help": "Z"})


def test_keys_and_themes_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Did you mean quit"):
        Viewer(tmp_path / "k.db", keys={"quitt": "x"})
    with pytest.raises(InputError, match="kforecast-light"):
        Viewer(tmp_path / "k.db", theme="pink")


def test_without_colour_nothing_is_lost(grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    grown.child(log2=0.5)

    async def act(seat: Seat) -> None:
        await seat.press("2")
        await seat.rows("#tree", 2)
        await seat.until(lambda: "★" in seat.seen() and "best" in seat.seen(), "glyph and word")
        for strip in seat.app.screen._compositor.render_strips():
            for segment in strip:
                assert segment.style is None or not segment.style.color or segment.style.color.is_default

    drive(act, grown.path)


def test_the_palette_offers_what_the_keys_do(grown: Grown) -> None:
    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        await seat.press("colon")
        await seat.press(*"extend")
        await seat.until(lambda: "Add to its budget" in seat.seen(), "the command")
        await seat.press("escape", "colon", *"double on cpu")
        await seat.until(lambda: "Open s_" in seat.seen(), "the search")
        await seat.press("down", "enter")
        await seat.until(lambda: seat.app.current_mode == "search", "its page")

    drive(act, grown.path)


def test_no_terminal_no_tui(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["tui"]) == 2
    assert "status --json" in capsys.readouterr().err


def test_nothing_else_loads_textual() -> None:
    code = (
        "import sys, kforecast, kforecast.app.main, kforecast.app.watch, kforecast.tools.mcp.server\n"
        "sys.exit(any(name.split('.')[0] == 'textual' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_older_store_is_brought_up_to_date_before_it_is_watched(
    grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown.close()
    monkeypatch.setattr(schema, "LATEST", schema.LATEST + 1)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE later (id TEXT) STRICT;"))
    with Watch(grown.path) as watch:
        assert watch.poll().pulse == "unreadable"
        bring_up_to_date(grown.path)
        assert watch.poll().pulse == "changed"
    bring_up_to_date(grown.path.with_name("none.db"))
    assert not grown.path.with_name("none.db").exists()
