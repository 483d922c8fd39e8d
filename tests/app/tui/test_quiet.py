"""The loop is kept free: garbage is looked for in pauses, pages are loaded ahead; and the watch that shows it."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from pathlib import Path

import pytest

from kforecast.app.tui import quiet
from kforecast.app.tui.app import Viewer
from kforecast.app.tui.loop_watch import WatchedViewer
from kforecast.app.tui.pages import PAGES
from kforecast.app.tui.quiet import LATEST_S, PAUSE_S, WHOLE_S, Quiet
from kforecast.store.database import Store


class Clock:
    """A clock that a test sets, and the collections that were asked for."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.asked: list[int] = []

    def monotonic(self) -> float:
        return self.now

    def collect(self, generation: int = 2) -> int:
        self.asked.append(generation)
        return 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(quiet.time, "monotonic", made.monotonic)
    monkeypatch.setattr(quiet.gc, "collect", made.collect)
    return made


def test_all_garbage_is_looked_for_in_a_pause_only_but_not_never(clock: Clock, tmp_path: Path) -> None:
    one = Quiet(Viewer(tmp_path / "k.db"))
    one._collect()
    clock.now += WHOLE_S + 1
    one.typed()
    one._collect()
    clock.now += PAUSE_S + 0.1
    one._collect()
    one._collect()
    assert clock.asked == [1, 1, 2, 1]
    while clock.now < 1000 + WHOLE_S + LATEST_S + 10:
        clock.now += 1
        one.typed()
        one._collect()
    assert clock.asked.count(2) == 2


def test_the_interpreters_own_schedule_is_off_while_the_app_runs_and_back_after(tmp_path: Path) -> None:
    Store.open(tmp_path / "k.db").close()

    async def run() -> None:
        app = Viewer(tmp_path / "k.db")
        async with app.run_test() as pilot:
            await pilot.pause()
            assert not gc.isenabled()

    assert gc.isenabled()
    asyncio.run(run())
    assert gc.isenabled()


def test_pages_are_loaded_ahead() -> None:
    quiet._load_pages()
    assert all(f"kforecast.app.tui.screens.{entry.module}" in sys.modules for entry in PAGES)


def test_the_watch_notes_each_second_and_each_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.open(tmp_path / "k.db").close()
    log = tmp_path / "loop.jsonl"
    monkeypatch.setattr(WatchedViewer, "watch_log", log, raising=False)

    async def run() -> None:
        app = WatchedViewer(tmp_path / "k.db")
        async with app.run_test() as pilot:
            await pilot.press("4")
            for _ in range(200):
                await pilot.pause(0.02)
                if "second" in log.read_text():
                    return
            raise AssertionError(log.read_text())

    asyncio.run(run())
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert any(entry.get("key") == "4" and entry["painted_ms"] > 0 for entry in entries)
    (second, *_) = [entry for entry in entries if "second" in entry]
    assert 0 <= second["worst_cpu_ms"] <= second["cpu_ms"] + 1
