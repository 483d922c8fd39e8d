"""Playing a recording: in its order, at any speed, until the searches stand as they ended."""

from __future__ import annotations

import os
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest

from kforecast.store import measurements, searches
from kforecast.store.database import Store
from kforecast.store.paths import runtime_dir, store_path
from kforecast.tools.demo.places import place_of_its_own
from kforecast.tools.demo.player import HEAD_START, Player, schedule
from kforecast.tools.demo.recording import SHIPPED, Recording, read
from kforecast.tools.search.process import is_worked_on


@pytest.fixture(scope="module")
def whole() -> Recording:
    return read(SHIPPED)


@pytest.fixture(scope="module")
def recording(whole: Recording) -> Recording:
    """Its shortest search alone."""
    shortest = min(whole.searches, key=lambda one: len(one[1]))
    return Recording(whole.about, whole.device, whole.recorded, whole.seconds, whole.nouns, (shortest,))


def test_the_schedule_keeps_each_logs_order_and_takes_the_whole_time(whole: Recording) -> None:
    plan = schedule(whole)
    for number, (_, log) in enumerate(whole.searches):
        own = [one for one in plan if one.search == number]
        assert [one.event for one in own] == list(log)
        assert own[0].due == 0.0
        assert own[-1].due == pytest.approx(whole.seconds)
    assert [one.due for one in plan] == sorted(one.due for one in plan)


def test_something_happens_all_the_time(whole: Recording) -> None:
    dues = [one.due for one in schedule(whole)]
    assert max(later - earlier for earlier, later in pairwise(dues)) < 3.0


def test_after_preparing_there_is_a_tree_that_somebody_works_on(recording: Recording, tmp_path: Path) -> None:
    path = tmp_path.resolve() / "demo.db"
    player = Player(recording, path)
    name = player.prepare()
    with Store.open_readonly(path) as store:
        found = searches.get(store, name)
        assert found is not None
        assert (found.state, found.counts["measured"]) == ("working", HEAD_START)
        assert is_worked_on(store, name)
        assert len(searches.nodes(store, name)) > HEAD_START
    assert not store_path().exists()


def test_played_to_the_end_the_search_stands_as_it_ended(recording: Recording, tmp_path: Path) -> None:
    path = tmp_path.resolve() / "demo.db"
    player = Player(recording, path, speed=1e6, sleep=lambda seconds: None)
    player.prepare()
    player.run()
    assert player.ended and player.error is None
    (ended, log), *_ = recording.searches
    with Store.open_readonly(path) as store:
        found = searches.get(store, ended.id)
        assert found is not None
        same = {"created_at": "", "updated_at": ""}
        assert found.model_copy(update=same) == ended.model_copy(update=same)
        assert len(searches.events(store, ended.id)) == len(log)
        assert not is_worked_on(store, ended.id)
        for node in searches.nodes(store, ended.id, best_first=True):
            assert node.measurement_id is not None
            assert measurements.get(store, node.measurement_id) is not None


def test_it_stands_still_while_held_and_stops_when_left(recording: Recording, tmp_path: Path) -> None:
    with Player(recording, tmp_path.resolve() / "demo.db", speed=1.0) as player:
        player.prepare()
        player.paused = True
        before = player.played
        player.start()
    assert player.played == before
    assert not player.ended


def test_a_store_that_goes_away_ends_it_with_a_reason(recording: Recording, tmp_path: Path) -> None:
    path = tmp_path.resolve() / "demo.db"
    player = Player(recording, path, speed=1e6, sleep=lambda seconds: path.unlink(missing_ok=True))
    player.prepare()
    player.run()
    assert player.error is not None and "deleted" in player.error.what


def test_the_place_goes_and_everything_is_as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = dict(os.environ)
    with place_of_its_own() as path:
        assert store_path() == path
        assert runtime_dir().is_relative_to(path.parent)
        Store.open(path).close()
        assert path.exists()
    assert dict(os.environ) == before
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_demo_left_goes_with_the_next_and_a_living_ones_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = tmp_path / "kforecast-demo-dead"
    dead.mkdir()
    (dead / "owner").write_text("demo:999999999:1")
    strange = tmp_path / "kforecast-demo-strange"
    strange.mkdir()
    with place_of_its_own() as living, place_of_its_own():
        assert living.parent.exists()
        assert not dead.exists()
        assert strange.exists()
