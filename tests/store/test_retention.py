"""Forgetting: whatever the store holds, nothing that anybody asks for afterwards has changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from past import CUT, asked, asked_for, ends, fill, moment, readings, said

from kforecast.store import forgetting, kernels, measurements, retention
from kforecast.store.database import Store
from kforecast.store.errors import StoreError
from kforecast.store.feed import Feed


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(readings, said, asked, st.lists(st.integers(0, 15), max_size=3))
def test_nothing_that_anybody_asks_for_changes(
    measured: list[Any], forecast: list[Any], waiting: list[Any], in_search: list[int]
) -> None:
    with TemporaryDirectory() as folder, Store.open(Path(folder).resolve() / "k.db") as store:
        fill(store, measured, forecast, waiting, in_search)
        before, last = asked_for(store), ends(store)
        told = retention.forgettable(store, CUT)
        assert forgetting.forget(store, CUT) == told
        assert asked_for(store) == before
        assert ends(store) == last
        assert store.read("PRAGMA foreign_key_check") == []
        kept = measurements.find(store, limit=None)
        assert all(kernels.get(store, one.kernel_id) is not None for one in kept)


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Store]:
    """A kernel measured five times long ago, once with another one that was superseded as well."""
    with Store.open(tmp_path.resolve() / "k.db") as store:
        fill(store, [((1, None, "cpu", "ok", None, "quick"), day) for day in (1, 2, 3, 4, 5)], [], [], [])
        yield store


def left(store: Store) -> set[str]:
    return {one.id for one in measurements.find(store, limit=None)}


def test_superseded_readings_go_and_the_newest_two_stay(old: Store) -> None:
    assert forgetting.forget(old, CUT).rows["measurements"] == 3
    assert left(old) == {"m_3", "m_4"}


def test_kernels_that_nothing_names_go(old: Store) -> None:
    found = forgetting.forget(old, CUT)
    # The seed of the searches and the measured one stay; so does the last row of the table.
    assert found.rows["kernels"] == 2
    assert {one.name for one in kernels.find(old)} == {"k0.c", "k1.c", "k4.c"}
    assert found.text_bytes > 0


def test_what_is_younger_stays(old: Store) -> None:
    assert forgetting.forget(old, moment(1)).rows == dict.fromkeys(retention.TABLES, 0)
    assert len(left(old)) == 5


def test_a_second_time_finds_nothing(old: Store) -> None:
    forgetting.forget(old, CUT)
    assert sum(forgetting.forget(old, CUT).rows.values()) == 0


def test_a_reader_misses_no_row_that_comes_after(old: Store) -> None:
    with Feed(old.path) as feed:
        while feed.poll().state == "changed":
            pass
        forgetting.forget(old, CUT)
        found = measurements.find(old, limit=1)[0].model_copy(update={"id": "m_new"})
        measurements.save(old, found)
        assert [one.id for one in feed.poll().rows["measurements"]] == ["m_new"]


def test_looking_writes_nothing_and_works_read_only(old: Store) -> None:
    with Store.open_readonly(old.path) as reader:
        version = reader.data_version()
        assert retention.forgettable(reader, CUT).rows["measurements"] == 3
        assert reader.data_version() == version
        with pytest.raises(StoreError, match="reading only"):
            forgetting.forget(reader, CUT)
        with pytest.raises(StoreError, match="reading only"):
            reader.shrink()
    assert len(left(old)) == 5


def test_the_space_comes_back(old: Store) -> None:
    with old.write() as db:
        db.execute("CREATE TABLE ballast AS SELECT randomblob(1 << 20) AS bytes")
    with old.write() as db:
        db.execute("DROP TABLE ballast")
    old.shrink()
    assert old.path.stat().st_size < 1 << 20
    assert old.read("PRAGMA integrity_check")[0][0] == "ok"
    assert len(left(old)) == 5


def test_every_reference_to_what_may_go_is_looked_at(old: Store) -> None:
    """A table that a later version adds and that names such rows has to be thought of in `store.retention`."""
    tables = [row[0] for row in old.read("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {
        (table, row["from"])
        for table in tables
        for row in old.read(f"SELECT * FROM pragma_foreign_key_list('{table}')")
        if row["table"] in retention.TABLES
    }
    assert found == {
        *(("kernels", name) for name in ("task_id",)),
        *(("measurements", name) for name in ("kernel_id", "baseline_id", "task_id")),
        *(("forecasts", name) for name in ("kernel_id", "baseline_id", "task_id")),
        *(("searches", name) for name in ("seed_id", "best_id", "task_id")),
        ("decisions", "forecast_id"),
        ("requests", "result_id"),
        ("nodes", "kernel_id"),
    }
