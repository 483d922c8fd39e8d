"""The frame of the tui: it opens, tabs lead to pages, a store's fate is told, what strangers wrote is only shown."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from driving import Seat, drive
from grown import Grown

from kforecast.app.tui.app import Viewer
from kforecast.app.tui.keys import checked_keys
from kforecast.app.tui.lines import Column, fitted, harmless, layout, width_of
from kforecast.app.tui.pages import PAGES
from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.store.paths import config_path
from kforecast.tools.config import load_config


def test_every_tab_opens(tmp_path: Path) -> None:
    Store.open(tmp_path / "k.db").close()

    async def drive() -> None:
        app = Viewer(tmp_path / "k.db")
        async with app.run_test(size=(80, 24)) as pilot:
            for number, entry in enumerate(PAGES, start=1):
                await pilot.press(str(number))
                await pilot.pause()
                assert app.current_mode == entry.name
            await pilot.press("question_mark")
            await pilot.pause()
            assert len(app.screen_stack) == 2
            await pilot.press("escape")
            await pilot.pause()
            assert len(app.screen_stack) == 1
            await pilot.press("q")

    asyncio.run(drive())


def test_what_strangers_wrote_reaches_no_terminal_as_a_command() -> None:
    text = harmless("\x1b[2J\x07evil\u202egnp.exe\x9b31m")
    assert text.isprintable() and "evil" in text
    assert harmless("naïve → 核") == "naïve → 核"


def test_columns_that_do_not_fit_are_dropped_and_the_rest_fills_the_width() -> None:
    columns = (Column("a", 10, grow=1), Column("b", 8, drop=1), Column("c", 6, drop=2))
    assert layout(columns, 40) == [(0, 22), (1, 8), (2, 6)]
    assert [index for index, _ in layout(columns, 24)] == [0, 1]
    assert width_of(fitted((("核核核核", "good"),), 5)) == 5


def test_tabs_and_keys_can_be_clicked(grown: Grown) -> None:
    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        await seat.pilot.click("TabLine", offset=(17, 0))
        await seat.until(lambda: seat.app.current_mode == "search", "the page Search")
        await seat.until(lambda: "? Help" in seat.seen(), "the keys")
        line = seat.seen().splitlines()[-1]
        await seat.pilot.click("KeyLine", offset=(line.index("? Help") + 2, 0))
        await seat.until(lambda: len(seat.app.screen_stack) == 2, "the help")

    drive(act, grown.path)


def test_keys_and_theme_come_from_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORECAST_KEYS", "quit=Q; stop=ctrl+x")
    monkeypatch.setenv("KFORECAST_THEME", "ansi-dark")
    config = load_config()
    assert (dict(config.keys), config.theme) == ({"quit": "Q", "stop": "ctrl+x"}, "ansi-dark")
    assert checked_keys(config.keys) == config.keys
    path = config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("keys = { quit = 3 }\n")
    monkeypatch.delenv("KFORECAST_KEYS")
    with pytest.raises(InputError, match="a table such as"):
        load_config()
    path.unlink()
