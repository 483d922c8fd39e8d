"""The pages Forecasts, Kernels and Device, driven by keys on terminals of both sizes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from grown import TASK, Grown, kernel
from textual.pilot import Pilot

from kforecast.app.tui.app import Viewer
from kforecast.app.tui.canvas import Canvas
from kforecast.app.tui.screens.device import DevicePage
from kforecast.app.tui.screens.forecasts import ForecastsPage, Picture, ToldTable
from kforecast.app.tui.screens.kernels import KernelsPage, StandingsTable
from kforecast.store import kernels, measurements, requests
from kforecast.store.clock import utc_now
from kforecast.store.identity import new_id
from kforecast.store.models import Measurement

Drive = Callable[[Viewer, Pilot[None]], Awaitable[None]]
SIZES = [(80, 24), (160, 50)]


def drive(grown: Grown, size: tuple[int, int], steps: Drive) -> None:
    async def run() -> None:
        app = Viewer(grown.path)
        async with app.run_test(size=size) as pilot:
            await steps(app, pilot)

    asyncio.run(run())


def lines(part: Canvas) -> list[str]:
    """What a part says, after its head line."""
    return ["", *("".join(text for text, _ in part.paint(number, 200)) for number in range(part.length))]


async def until(pilot: Pilot[None], ready: Callable[[], bool]) -> None:
    for _ in range(200):
        await pilot.pause(0.02)
        if ready():
            return
    raise AssertionError("it was never shown")


def save(grown: Grown, number: int, time_us: float, **changes: Any) -> Measurement:
    one = kernel(number)
    kernels.save(grown.store, one)
    found = Measurement(
        **{
            "id": new_id("m"), "kernel_id": one.id, "task_id": TASK.id, "task_name": TASK.name, "device": "cpu",
            "device_id": "cpu-1", "lane": "host-code", "launch_mode": "process", "effort": "quick", "verdict": "ok",
            "reason": "", "time_us": time_us, "noise_pct": 1.0, "created_at": utc_now(), **changes,
        }
    )  # fmt: skip
    measurements.save(grown.store, found)
    return found


@pytest.mark.parametrize("size", SIZES)
def test_kernels_stand_in_their_places_and_one_is_told_in_full(grown: Grown, size: tuple[int, int]) -> None:
    for number, time_us in ((1, 30.0), (2, 10.0), (3, 10.1)):
        save(grown, number, time_us)
    save(grown, 4, 5.0, quarantine="under the floor")

    async def steps(app: Viewer, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        page = app.screen
        assert isinstance(page, KernelsPage)
        table = page.query_one(StandingsTable)
        await until(pilot, lambda: table.rows.total == 3)
        shown = lines(table)
        assert [row.split()[:2] for row in (shown[1].lstrip("▌ "), shown[2].lstrip("▌ "), shown[3].lstrip("▌ "))] == [
            ["=1", "k2.c"],
            ["=1", "k3.c"],
            ["3", "k1.c"],
        ]
        await until(pilot, lambda: "k2.c" in "".join(lines(page.query_one("#detail", Canvas))))
        await pilot.press("a")
        await until(pilot, lambda: table.rows.total == 4)
        assert "! quarantine" in lines(table)[4]
        await pilot.press("v")
        await until(pilot, lambda: any("variant 2" in line for line in lines(page.query_one("#detail", Canvas))))
        await pilot.press("slash", *"k1", "enter")
        await until(pilot, lambda: table.rows.total == 1)
        await pilot.press("escape")
        await until(pilot, lambda: table.rows.total == 4)

    drive(grown, size, steps)


def test_another_reading_is_asked_for(grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    from kforecast.tools import measure as room

    asked: list[dict[str, Any]] = []

    class Answer:
        summary = "It waits for the device."

    def measure(kernel_id: str, **given: Any) -> Answer:
        asked.append({"kernel": kernel_id, **given})
        return Answer()

    monkeypatch.setattr(room, "measure", measure)
    found = save(grown, 1, 30.0, baseline_id=kernel(0).id, log2_speedup=0.5)

    async def steps(app: Viewer, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await until(pilot, lambda: app.screen.query_one(StandingsTable).rows.total == 1)
        await until(pilot, lambda: "Readings" in "".join(lines(app.screen.query_one("#detail", Canvas))))
        await pilot.press("m")
        await until(pilot, lambda: bool(asked))

    drive(grown, (80, 24), steps)
    (one,) = asked
    assert (one["kernel"], one["baseline"], one["device"]) == (found.kernel_id, kernel(0).id, "cpu")


def test_boards_are_gone_through_with_brackets(grown: Grown) -> None:
    save(grown, 1, 30.0)
    save(grown, 2, 10.0, device="cuda:0", device_id="GPU-1", launch_mode="stream")

    async def steps(app: Viewer, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        table = app.screen.query_one(StandingsTable)
        await until(pilot, lambda: "cuda:0" in str(table.border_title))
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "cpu" in str(table.border_title))
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: "cuda:0" in str(table.border_title))

    drive(grown, (80, 24), steps)


def test_a_reading_is_put_into_quarantine_and_believed_again(grown: Grown) -> None:
    found = save(grown, 1, 30.0)

    def doubt() -> str | None:
        one = measurements.get(grown.store, found.id)
        return None if one is None else one.quarantine

    async def steps(app: Viewer, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        table = app.screen.query_one(StandingsTable)
        await until(pilot, lambda: table.rows.total == 1)
        await pilot.press("a", "exclamation_mark")
        await pilot.press(*"odd", "enter")
        await until(pilot, lambda: doubt() is not None)
        await until(pilot, lambda: "! quarantine" in lines(table)[1])
        await pilot.press("exclamation_mark")
        await pilot.press("y")
        await until(pilot, lambda: doubt() is None)

    drive(grown, (80, 24), steps)


@pytest.mark.parametrize("size", SIZES)
def test_forecasts_beside_measurements_and_enter_shows_the_kernel(grown: Grown, size: tuple[int, int]) -> None:
    for log2 in (0.2, 0.5, 3.0, None):
        grown.child(log2=log2)
    save(grown, 3, 9.0)

    async def steps(app: Viewer, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        page = app.screen
        assert isinstance(page, ForecastsPage)
        table = page.query_one(ToldTable)
        await until(pilot, lambda: table.rows.total == 4)
        picture = page.query_one("#first", Picture)
        await until(pilot, lambda: picture.length > 3)
        assert "measured S" in lines(picture)[1]
        assert page.query_one("#second", Picture).display == (size[0] >= 120)
        await pilot.press("s")
        await until(pilot, lambda: "idea 4" in lines(table)[1])
        assert "not right" in lines(table)[1]
        await pilot.press("j")
        await until(pilot, lambda: table.key is not None and "idea 3" in lines(table)[2] and table.cursor == 1)
        await pilot.press("v")
        await until(pilot, lambda: "reliability" in str(page.query_one("#first").border_title) or size[0] >= 120)
        await pilot.press("enter")
        await pilot.pause()
        assert app.current_mode == "kernels"
        detail = app.screen.query_one("#detail", Canvas)
        await until(pilot, lambda: any("k3.c" in line for line in lines(detail)))

    drive(grown, size, steps)


def test_a_click_on_a_point_goes_to_its_forecast(grown: Grown) -> None:
    for log2 in (3.0, 0.2, 0.5):
        grown.child(log2=log2)

    async def steps(app: Viewer, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        page = app.screen
        assert isinstance(page, ForecastsPage)
        table, picture = page.query_one(ToldTable), page.query_one("#first", Picture)
        await until(pilot, lambda: table.rows.total == 3 and picture.length > 3)
        row, column = next(
            (number, line.index("×")) for number, line in enumerate(lines(picture)[1:]) if number and "×" in line
        )
        assert await pilot.click(picture, offset=(column + 1, row + 1))
        await until(pilot, lambda: "idea 1" in lines(table)[1 + table.cursor])

    drive(grown, (160, 50), steps)


@pytest.mark.parametrize("size", SIZES)
def test_the_device_its_queue_and_cancelling(grown: Grown, size: tuple[int, int]) -> None:
    asked = requests.enqueue(
        grown.store, device="cpu", payload={"kernel_id": kernel(0).id, "baseline_id": None}, client="cli:1:2"
    )

    async def steps(app: Viewer, pilot: Pilot[None]) -> None:
        await pilot.press("5")
        page = app.screen
        assert isinstance(page, DevicePage)
        queue = page.query_one("#queue", Canvas)
        await until(pilot, lambda: any("k0.c" in line for line in lines(queue)))
        assert any("lock" in line for line in lines(page.query_one("#about", Canvas)))
        await pilot.press("x")
        await pilot.press("y")

        def cancelled() -> bool:
            row = requests.get(grown.store, asked.id)
            return row is not None and row.state == "cancelled"

        await until(pilot, cancelled)
        await until(pilot, lambda: any("Nothing waits" in line for line in lines(queue)))

    drive(grown, size, steps)


def test_escape_goes_back_one_level_at_a_time(grown: Grown) -> None:
    save(grown, 1, 30.0)

    async def steps(app: Viewer, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        table = app.screen.query_one(StandingsTable)
        await until(pilot, lambda: table.rows.total == 1)
        await pilot.press("enter")
        assert app.screen.has_class("-zoom")
        await pilot.press("escape")
        assert not app.screen.has_class("-zoom") and table.has_focus
        await pilot.press("escape")
        assert app.current_mode == "searches"

    drive(grown, (80, 24), steps)
