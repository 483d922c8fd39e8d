"""A reader survives whatever becomes of its store, and says what that was."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from kforecast.store.database import Store
from kforecast.tools.viewing.watch import Beat, Watch


def stored(path: Path) -> Path:
    Store.open(path).close()
    return path


def touch(path: Path) -> None:
    with Store.open(path) as store, store.write() as db:
        db.execute("INSERT INTO consents VALUES ('c', 'n', '{}', '2026-01-01T00:00:00Z', 1)")


def test_nothing_new_is_the_same_and_a_commit_is_a_change(tmp_path: Path) -> None:
    path = stored(tmp_path / "k.db")
    with Watch(path) as watch:
        assert [watch.poll().pulse, watch.poll().pulse] == ["changed", "same"]
        touch(path)
        assert [watch.poll().pulse, watch.poll().pulse] == ["changed", "same"]


def test_no_store_yet_is_said_and_one_that_comes_is_seen(tmp_path: Path) -> None:
    with Watch(tmp_path / "k.db") as watch:
        beat = watch.poll()
        assert beat.pulse == "missing" and "kforecast measure" in beat.message
        stored(tmp_path / "k.db")
        assert watch.poll().pulse == "changed"


def test_a_locked_store_is_waited_for_no_longer_than_asked_and_comes_back(tmp_path: Path) -> None:
    path = stored(tmp_path / "k.db")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN IMMEDIATE")
    holder.execute("INSERT INTO consents VALUES ('c', 'n', '{}', '2026-01-01T00:00:00Z', 1)")
    with Watch(path, timeout_s=0.05) as watch:
        beat = watch.poll()
        assert (beat.pulse, beat.readable) == ("locked", False) and "locked" in beat.message
        holder.execute("ROLLBACK")
        holder.close()
        assert watch.poll().pulse == "changed"


def test_a_deleted_store_is_missed_and_another_one_is_another_object(tmp_path: Path) -> None:
    path = stored(tmp_path / "k.db")
    with Watch(path) as watch:
        watch.poll()
        first = watch.ask(lambda store: store)
        for file in tmp_path.glob("k.db*"):
            file.unlink()
        assert watch.poll().pulse == "missing"
        stored(path)
        assert watch.poll().pulse == "changed"
        assert watch.ask(lambda store: store) is not first


def test_a_store_that_was_moved_over_is_noticed(tmp_path: Path) -> None:
    path, other = stored(tmp_path / "k.db"), stored(tmp_path / "other.db")
    with Watch(path) as watch:
        watch.poll()
        shutil.move(other, path)
        assert watch.poll().pulse == "missing"
        assert watch.poll().pulse == "changed"


def test_a_newer_schema_ends_the_reading_until_it_is_known(tmp_path: Path) -> None:
    path = stored(tmp_path / "k.db")
    with Watch(path) as watch:
        watch.poll()
        with sqlite3.connect(path) as db:
            known = db.execute("PRAGMA user_version").fetchone()[0]
            db.execute("PRAGMA user_version = 99")
        beat = watch.poll()
        assert beat.pulse == "unreadable" and "newer kforecast" in beat.message
        assert watch.poll() == beat
        with sqlite3.connect(path) as db:
            db.execute(f"PRAGMA user_version = {known}")
        assert watch.poll().pulse == "changed"


def test_a_question_that_the_store_cannot_answer_is_a_beat(tmp_path: Path) -> None:
    path = stored(tmp_path / "k.db")
    with Watch(path) as watch:
        watch.poll()
        answer = watch.ask(lambda store: store.read("SELECT * FROM nowhere"))
        assert isinstance(answer, Beat) and answer.pulse == "unreadable"
        assert watch.poll().pulse == "changed"
