"""The change feed: everything new once and in order, updates too, and the truth about a store that went away."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from kforecast.store import kernels, profiles, requests, tasks
from kforecast.store.database import Store
from kforecast.store.feed import Feed
from kforecast.store.models import Kernel, Task


@pytest.fixture
def feed(path: Path) -> Iterator[Feed]:
    with Feed(path, timeout_s=0.05) as opened:
        yield opened


def ask(store: Store) -> str:
    return requests.enqueue(store, device="cpu", payload={}, client="c").id


def test_what_is_there_comes_first_and_then_only_what_is_new(
    store: Store, feed: Feed, saved: list[Kernel], task: Task
) -> None:
    first = feed.poll()
    assert first.state == "changed"
    assert first.rows == {"tasks": (task,), "kernels": tuple(saved)}
    assert feed.poll().state == "same"
    profile = profiles.save(store, "cpu-1", "memory", {})
    assert feed.poll().rows == {"profiles": (profile,)}
    assert feed.poll().state == "same"


def test_a_request_that_moves_on_is_seen_again(store: Store, feed: Feed) -> None:
    ask(store)
    other = ask(store)
    states = [[one.state for one in feed.poll().rows["requests"]]]
    requests.claim(store, requests.queue(store, "cpu", limit=1)[0].id, "broker-1")
    states.append([one.state for one in feed.poll().rows["requests"]])
    requests.cancel(store, other)
    states.append([one.state for one in feed.poll().rows["requests"]])
    assert states == [["queued", "queued"], ["working"], ["cancelled"]]


def test_nothing_new_costs_no_query_of_a_table(store: Store, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(store)
    feed.poll()
    monkeypatch.setattr(Store, "snapshot", None)
    assert feed.poll().state == "same"


def test_pages_are_read_to_the_end_without_a_further_commit(store: Store, path: Path) -> None:
    ids = [ask(store) for _ in range(7)]
    seen: list[str] = []
    with Feed(path, page=3) as feed:
        while (changes := feed.poll()).state == "changed":
            seen += [one.id for one in changes.rows["requests"]]
    assert seen == ids


def test_a_reader_may_begin_now_and_choose_its_tables(store: Store, path: Path, saved: list[Kernel]) -> None:
    with Feed(path, from_now=True, tables=("requests",)) as feed:
        assert feed.poll().state == "same"
        profiles.save(store, "cpu-1", "memory", {})
        assert feed.poll().state == "same"
        request_id = ask(store)
        assert [one.id for one in feed.poll().rows["requests"]] == [request_id]


def test_a_store_that_comes_later_is_all_new(path: Path, task: Task) -> None:
    with Feed(path, from_now=True) as feed:
        assert feed.poll().state == "missing"
        path.parent.mkdir()
        path.touch()
        assert feed.poll().state == "missing", "an empty file is no store yet"
        with Store.open(path) as store:
            tasks.save(store, task)
            assert feed.poll().rows == {"tasks": (task,)}


def test_a_deleted_store_is_missing_and_its_successor_new(
    store: Store, path: Path, feed: Feed, saved: list[Kernel]
) -> None:
    feed.poll()
    store.close()
    for file in path.parent.iterdir():
        file.unlink()
    assert feed.poll().state == "missing"
    assert feed.poll().state == "missing"
    with Store.open(path) as fresh:
        request_id = ask(fresh)
        assert [one.id for one in feed.poll().rows["requests"]] == [request_id]


def test_a_replaced_store_is_told_and_read_from_its_start(
    *, store: Store, path: Path, tmp_path: Path, feed: Feed, saved: list[Kernel], task: Task
) -> None:
    feed.poll()
    with Store.open(tmp_path / "other.db") as other:
        tasks.save(other, task)
        kernels.save(other, saved[1])
    store.close()
    for companion in ("-wal", "-shm"):  # The old log would be taken for the new file's.
        path.with_name(path.name + companion).unlink()
    (tmp_path / "other.db").rename(path)
    assert feed.poll().state == "replaced"
    assert feed.poll().rows == {"tasks": (task,), "kernels": (saved[1],)}


def test_a_locked_store_is_told_and_nothing_is_missed(path: Path, feed: Feed, store: Store) -> None:
    store.read("PRAGMA journal_mode = DELETE")
    request_id = ask(store)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    changes = feed.poll()
    assert changes.state == "locked"
    assert "locked" in changes.message
    blocker.close()
    assert [one.id for one in feed.poll().rows["requests"]] == [request_id]


def test_a_file_that_is_no_store_is_told(path: Path, feed: Feed) -> None:
    path.parent.mkdir()
    path.write_bytes(b"something else" * 1000)
    changes = feed.poll()
    assert changes.state == "unreadable"
    assert "no SQLite database" in changes.message
