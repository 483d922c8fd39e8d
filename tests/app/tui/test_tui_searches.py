"""The page Searches: what it shows, how it is filtered and sorted, what can be done there."""

from __future__ import annotations

from pathlib import Path

import pytest
from driving import Seat, drive
from grown import Grown

from kforecast.app.tui.filter import Filter
from kforecast.bench.broker import processes_alive
from kforecast.store import searches
from kforecast.tools.search import use
from kforecast.tools.search.events import Finished, Told
from kforecast.tools.search.log import SearchLog, read_events
from kforecast.tools.search.next_actions import PAUSED_BY_ORDER


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


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The searches that a worker was wanted for; none is started."""
    found: list[str] = []
    monkeypatch.setattr(use, "ensure_worker", lambda store, search_id: found.append(search_id))
    return found


@pytest.mark.parametrize("page", ["searches", "search"])
def test_p_pauses_what_runs_and_goes_on_with_what_rests(grown: Grown, begun: list[str], page: str) -> None:
    worked_on(grown)

    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        await seat.until(lambda: "working" in seat.text("#searches"), "the search at work")
        if page == "search":
            await seat.press("enter")
        await seat.until(lambda: seat.app.current_mode == page and "Pause/resume" in seat.seen(), "the key's offer")
        await seat.press("p")
        await seat.until(lambda: "double: pausing." in seat.seen(), "that it pauses")
        assert told(grown) == [("pause", "tui")]
        grown.log = SearchLog(grown.store, grown.search_id)
        grown.say(Finished(outcome="paused", reason=PAUSED_BY_ORDER))  # as its worker does
        await seat.until(lambda: "paused" in seat.seen(), "its rest on the page")
        begun.clear()
        await seat.press("p")
        await seat.until(lambda: "double: going on." in seat.seen(), "that it goes on")
        assert (told(grown), begun) == ([("pause", "tui"), ("resume", "tui")], [grown.search_id])
        await seat.until(lambda: "working" in seat.seen(), "its work on the page")

    drive(act, grown.path)


def test_p_finds_a_worker_for_what_nobody_works_on(grown: Grown, begun: list[str]) -> None:
    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        await seat.until(lambda: "no worker" in seat.text("#searches"), "that nobody works on it")
        await seat.press("p")
        await seat.until(lambda: "double: going on." in seat.seen(), "that it goes on")

    drive(act, grown.path)
    assert (told(grown), begun, state(grown)) == ([("resume", "tui")], [grown.search_id], "working")


def test_p_is_not_offered_for_what_failed(grown: Grown, begun: list[str]) -> None:
    grown.say(Finished(outcome="failed", reason="The device is gone."))

    async def act(seat: Seat) -> None:
        await seat.rows("#searches", 1)
        await seat.until(lambda: "failed" in seat.text("#searches"), "its end")
        await seat.until(lambda: "Pause/resume" not in seat.seen(), "the footer without the key")
        await seat.press("p")

    drive(act, grown.path)
    assert (told(grown), begun, state(grown)) == ([], [], "failed")


def test_a_search_that_ended_is_extended(grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
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


def worked_on(grown: Grown) -> None:
    """Give the search a worker that lives: this process."""
    owner = processes_alive.owner_name("search")
    assert searches.take_lease(grown.store, grown.search_id, owner, lambda name: True, stale_before="") is None


def told(grown: Grown) -> list[tuple[str, str]]:
    """The orders that were given to the search, and by whom."""
    return [(one.order, one.by) for one in read_events(grown.store, grown.search_id) if isinstance(one, Told)]


def state(grown: Grown) -> str:
    found = searches.get(grown.store, grown.search_id)
    assert found is not None
    return found.state


def limit(grown: Grown) -> float:
    found = searches.get(grown.store, grown.search_id)
    assert found is not None
    return found.limits["measurements"]
