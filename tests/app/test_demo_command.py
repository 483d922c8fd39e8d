"""`kforecast demo`: what it says without a terminal, and the viewer over a recording."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kforecast.app.main import run
from kforecast.store import searches
from kforecast.store.database import Store
from kforecast.store.paths import store_path
from kforecast.tools.demo.player import Player
from kforecast.tools.demo.recording import SHIPPED, read

Capture = pytest.CaptureFixture[str]


def test_it_needs_a_terminal(capsys: Capture) -> None:
    assert run(["demo"]) == 2
    assert "needs a terminal" in capsys.readouterr().err


def test_after_json_it_says_what_is_recorded(capsys: Capture) -> None:
    assert run(["demo", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "H200" in found["about"]
    assert all(one["best"] > 1 and one["counts"]["measured"] >= 50 for one in found["searches"])
    assert not store_path().exists()


def test_a_file_that_is_no_recording(capsys: Capture, tmp_path: Path) -> None:
    assert run(["demo", str(tmp_path / "none"), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["what"].startswith("the recording cannot be read")


def test_the_viewer_says_that_it_is_a_recording_and_changes_nothing(tmp_path: Path) -> None:
    from kforecast.app.tui.demo import DemoViewer

    path = tmp_path.resolve() / "demo.db"

    async def look() -> list[str]:
        words = []
        with Player(read(SHIPPED), path) as player:
            viewer = DemoViewer(player, path, first=player.prepare())
            async with viewer.run_test(size=(80, 24)) as pilot:
                await pilot.pause()
                words.append(viewer.liveness[0])
                await pilot.press(">")
                words.append(viewer.liveness[0])
                await pilot.press("<", "<")
                words.append(viewer.liveness[0])
                await pilot.press("P")
                words.append(viewer.liveness[0])
                viewer.change("stop", lambda store: searches.recent(store)[0])
                await pilot.pause()
                words += [str(one.message) for one in viewer._notifications]
        return words

    words = asyncio.run(look())
    assert words[:4] == ["▶ recorded x1", "▶ recorded x2", "▶ recorded x0.5", "‖ recording held"]
    assert any("This is a recording" in word for word in words[4:])
    assert any("H200" in word for word in words[4:])
    with Store.open_readonly(path) as store:
        assert all(one.state == "working" for one in searches.recent(store))
