"""Tables over lists that are longer than what is there of them, and that move under their reader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from textual.app import App, ComposeResult
from textual.pilot import Pilot

from kforecast.app.tui.lines import Column
from kforecast.app.tui.roles import stylesheet
from kforecast.app.tui.table import Row, Rows, Table, Wish


class Shelf(App[None]):
    """A table over a list that stands for a store."""

    CSS = stylesheet()

    def __init__(self, keys: list[str]) -> None:
        super().__init__()
        self.keys = keys
        self.questions = 0

    def compose(self) -> ComposeResult:
        yield Table(columns=(Column("name", 10, grow=1),))

    def on_mount(self) -> None:
        self.query_one(Table).focus()
        self.renew()

    def renew(self, wish: Wish | None = None) -> None:
        """Ask the list, and show the answer."""
        table = self.query_one(Table)
        asked = wish or table.wish
        self.questions += 1
        at = self.keys.index(asked.key) if asked.key in self.keys else None
        first = asked.first
        if at is not None and not first <= at < first + asked.count:
            first = max(0, at - asked.count // 2)
        shown = self.keys[first : first + asked.count]
        table.show(Rows(len(self.keys), first, tuple(Row(key, (key,)) for key in shown), at))

    def on_table_wanted(self) -> None:
        self.renew()

    def on_table_moved(self) -> None:
        self.renew()


def drive(act: Callable[[Shelf, Table, Pilot[None]], Awaitable[None]], count: int = 5000) -> None:
    async def run() -> None:
        app = Shelf([f"row {number}" for number in range(count)])
        async with app.run_test(size=(40, 20)) as pilot:
            await pilot.pause()
            await act(app, app.query_one(Table), pilot)
            await pilot.pause()

    asyncio.run(run())


def test_the_end_of_a_long_list_is_one_key_away() -> None:
    async def act(app: Shelf, table: Table, pilot: Pilot[None]) -> None:
        await pilot.press("G")
        await pilot.pause()
        assert (table.cursor, table.key) == (4999, "row 4999")
        await pilot.press("pageup", "k")
        await pilot.pause()
        assert table.key == f"row {table.cursor}" and table.cursor < 4990
        await pilot.press("g")
        await pilot.pause()
        assert (table.cursor, table.key) == (0, "row 0")
        assert app.questions < 15

    drive(act)


def test_the_wheel_takes_the_cursor_along() -> None:
    async def act(app: Shelf, table: Table, pilot: Pilot[None]) -> None:
        table.scroll_to(y=2000, animate=False, immediate=True)
        await pilot.pause()
        assert (table.cursor, table.key) == (2000, "row 2000")
        table.scroll_to(y=1000, animate=False, immediate=True)
        await pilot.pause()
        assert 1000 <= table.cursor < 1020 and table.key == f"row {table.cursor}"
        asked = app.questions
        await pilot.pause(0.2)
        assert app.questions == asked

    drive(act)


def test_the_cursor_stays_on_its_row_when_others_come_before_it() -> None:
    async def act(app: Shelf, table: Table, pilot: Pilot[None]) -> None:
        await pilot.press(*["j"] * 5)
        app.keys[:0] = [f"new {number}" for number in range(3)]
        app.renew()
        await pilot.pause()
        assert (table.cursor, table.key) == (8, "row 5")
        app.keys.reverse()
        app.renew()
        await pilot.pause()
        assert table.key == "row 5" and table.row(table.cursor) is not None

    drive(act)


def test_an_answer_that_comes_late_does_not_take_the_cursor_back() -> None:
    async def act(app: Shelf, table: Table, pilot: Pilot[None]) -> None:
        early = table.wish
        table.action_down()
        table.action_down()
        app.keys.insert(0, "new")
        app.renew(early)
        assert (table.cursor, table.key) == (3, "row 2")

    drive(act)


def test_a_list_that_shrinks_keeps_the_cursor_in_it() -> None:
    async def act(app: Shelf, table: Table, pilot: Pilot[None]) -> None:
        await pilot.press("G")
        await pilot.pause()
        del app.keys[10:]
        app.renew()
        await pilot.pause()
        assert (table.cursor, table.key) == (9, "row 9")
        app.keys.clear()
        app.renew()
        await pilot.pause()
        assert table.key is None and table.length == 1

    drive(act)
