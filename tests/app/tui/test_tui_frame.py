"""The frame of the tui: it opens, tabs lead to pages, a store's fate is told, what strangers wrote is only shown."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kforecast.app.tui.app import Viewer
from kforecast.app.tui.lines import Column, fitted, harmless, layout, width_of
from kforecast.app.tui.pages import PAGES
from kforecast.store.database import Store


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
