"""The page Searches: what it shows, how it is filtered and sorted, what can be done there."""

from __future__ import annotations

from pathlib import Path

import pytest
from driving import Seat, drive
from grown import Grown

from kforecast.app.tui.filter import Filter
from kforecast.store import searches
from kforecast.tools.search import use


def test_a_search_is_listed_with_how_it_is_doing_and_followed(grown: Grown) -> None:
    grown.child(log2=0.5)

    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        await seat.until(lambda: "1.41" in seat.text("#searches"), "the best S")
        assert "no worker" in seat.text("#searches") and "double" in seat.text("#searches")
        grown.child(log2=1.0)
        await seat.until(lambda: "2.00" in seat.text("#searches"), "the better S")
        grown.finish()
        await seat.until(lambda: "completed" in seat.text("#searches"), "the end")

    drive(act, grown.path)


@pytest.mark.parametrize("size", [(80, 24), (160, 50), (60, 15)])
def test_it_fits_the_terminal(grown: Grown, size: tuple[int, int]) -> None:
    grown.child(log2=0.5)

    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        await seat.until(lambda: "1.41" in seat.seen(), "the best S on the screen")
        assert "Quit" in seat.seen() and "1 Searches" in seat.seen()
        if size[0] >= 80:
            await seat.until(lambda: "deferred" in seat.seen() and "100%" in seat.seen(), "the deferral rate")
        assert all(len(line) == size[0] for line in seat.seen().splitlines())

    drive(act, grown.path, size=size)


def test_a_filter_narrows_the_list_and_esc_widens_it(grown: Grown) -> None:
    other = Grown(grown.path, generator="agent")

    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 2)
        await seat.press("slash", *"agent")
        await seat.rows("#searches", 1)
        await seat.press("enter")
        assert seat.table("#searches").has_focus and seat.app.screen.query_one(Filter).display
        await seat.press("escape")
        await seat.rows("#searches", 2)
        assert not seat.app.screen.query_one(Filter).display
        await seat.press("slash", *"xyz")
        await seat.until(lambda: "No search matches" in seat.text("#searches"), "words for no match")

    drive(act, grown.path)
    other.close()


def test_sorting_goes_round_and_the_cursor_stays_on_its_search(grown: Grown) -> None:
    grown.child(log2=0.5)
    other = Grown(grown.path)

    async def act(seat: Seat) -> None:
        table = await seat.rows("#searches", 2)
        assert table.key == other.search_id
        await seat.press("s", "s")
        await seat.until(lambda: table.cursor == 1, "the cursor to follow its search")
        assert table.key == other.search_id

    drive(act, grown.path)
    other.close()


def test_enter_opens_the_search_and_esc_comes_back(grown: Grown) -> None:
    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        await seat.press("enter")
        assert seat.app.current_mode == "search" and seat.app.selected_search == grown.search_id
        await seat.rows("#tree", 1)
        await seat.press("escape")
        assert seat.app.current_mode == "searches"

    drive(act, grown.path)


def test_stop_asks_first_and_goes_through_the_use_case(grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use, "ensure_worker", lambda store, search_id: None)

    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        await seat.press("x")
        assert "Stop the search" in seat.seen()
        await seat.press("n")
        await seat.press("x", "y")
        await seat.until(lambda: "stopping" in seat.text("#searches") or state(grown) == "stopping", "the stop")

    drive(act, grown.path)
    assert state(grown) == "stopping"


def test_pause_and_extend(grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use, "ensure_worker", lambda store, search_id: None)
    grown.finish()

    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        await seat.until(lambda: "completed" in seat.text("#searches"), "its end")
        assert "Stop" not in seat.seen()
        await seat.press("plus")
        await seat.press("ctrl+u", *"7m", "enter")
        await seat.until(lambda: limit(grown) == 47, "seven measurements more")

    drive(act, grown.path)


def test_what_an_action_cannot_do_is_said(grown: Grown) -> None:
    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        await seat.press("plus", "ctrl+u", *"nonsense", "enter")
        await seat.until(lambda: "not a limit of a budget" in seat.seen(), "the error")

    drive(act, grown.path)


def test_a_report_is_written_where_the_tui_was_started(
    grown: Grown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown.child(log2=0.5)
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    page = folder / f"{grown.search_id}.html"

    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        await seat.press("R")
        await seat.until(lambda: page.exists() and page.stat().st_size > 0, "the page")

    drive(act, grown.path)
    assert "Best so far" in page.read_text()


def test_ids_are_copied(grown: Grown) -> None:
    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        await seat.press("y")
        assert seat.app.clipboard == grown.search_id

    drive(act, grown.path)


def state(grown: Grown) -> str:
    found = searches.get(grown.store, grown.search_id)
    assert found is not None
    return found.state


def limit(grown: Grown) -> float:
    found = searches.get(grown.store, grown.search_id)
    assert found is not None
    return found.limits["measurements"]
