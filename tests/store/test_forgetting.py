"""Forgetting while others write, and dying in the middle of it: between any two batches the store is everybody's, and
what is written then keeps what it needs."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from past import (
    CUT,
    KERNELS,
    TASK,
    asked,
    asked_for,
    ends,
    fill,
    kernel,
    moment,
    pairs,
    readings,
    said,
    search,
    ways,
)

from kforecast.store import forecasts, kernels, measurements, requests, retention, tasks
from kforecast.store.database import Store
from kforecast.store.forgetting import forget
from kforecast.store.models import Forecast, Kernel, Launch, Measurement


class Died(Exception):
    """The end of a process in the middle of it."""


def reading(name: str, way: Any, moment_of: str) -> Measurement:
    k, base, on, verdict, quarantine, effort = way
    return Measurement(
        id=name, kernel_id=KERNELS[k].id, baseline_id=None if base is None else KERNELS[base].id, task_id=TASK.id,
        task_name=TASK.name, device=on, device_id=f"id-{on}", lane="host-code", launch_mode="process", effort=effort,
        verdict=verdict, reason="", quarantine=quarantine, time_us=1.0 if verdict == "ok" else None,
        log2_speedup=0.5 if verdict == "ok" and base is not None else None, created_at=moment_of,
    )  # fmt: skip


def forecast_of(name: str, pair: Any, moment_of: str) -> Forecast:
    k, base, on, forecaster = pair
    return Forecast(
        id=name, kernel_id=KERNELS[k].id, baseline_id=KERNELS[base].id, task_id=TASK.id, device=on,
        forecaster=forecaster, p_correct=0.5, p_bins=(0.125,) * 8, log2_median=0.0, log2_p10=-1.0, log2_p90=1.0,
        created_at=moment_of,
    )  # fmt: skip


class Others:
    """What other processes do to a store between two batches, done to a copy of it that forgets nothing as well."""

    def __init__(self, store: Store, copy: Store) -> None:
        self.stores = (store, copy)
        self.waiting: list[str] = []
        self.named: list[str] = []
        self.steps = 0

    def written_once(self, kind: str, which: Any) -> None:
        """To the one store only, without saving again what it refers to."""
        (store, _), number = self.stores, which
        if kind == "measure":
            measurements.save(store, reading("m_new", which, moment(28)))
        elif kind == "doubt":
            measurements.set_quarantine(store, f"m_{number}", "too fast")
        elif kind == "search":
            search(store, "s_new", "working", [f"m_{number}"], [1])
        elif kind == "ask":
            requests.enqueue(store, device="cpu", payload={"kernel_id": KERNELS[number].id}, client="cli:2")
        else:
            forecasts.save(store, forecast_of("f_new", which, moment(28)), None)

    def act(self, kind: str, which: Any) -> None:
        self.steps += 1
        getattr(self, kind)(which)

    def same(self, query: str, value: str) -> bool:
        """Whether nothing that the query finds has been forgotten yet: what is gone can no longer be told apart."""
        return len({len(store.read(query, (value,))) for store in self.stores}) == 1

    def measure(self, way: Any) -> None:
        made = reading(f"m_new{self.steps}", way, moment(28, self.steps))
        if self.same("SELECT id FROM forecasts WHERE kernel_id = ?", made.kernel_id):
            for store in self.stores:
                save_kernels(store)
                measurements.save(store, made)

    def forecast(self, pair: Any) -> None:
        made = forecast_of(f"f_new{self.steps}", pair, moment(28, self.steps))
        for store in self.stores:
            save_kernels(store)
            forecasts.save(store, made, None)

    def quarantine(self, number: int) -> None:
        query = "SELECT id FROM measurements WHERE kernel_id = ?"
        name = f"m_{number}"
        found = measurements.get(self.stores[0], name)
        # Of readings of which some are gone already, a doubt about those that stood for them comes too late.
        if found is not None and self.same(query, found.kernel_id):
            for store in self.stores:
                measurements.set_quarantine(store, name, "too fast")

    def search(self, number: int) -> None:
        if measurements.get(self.stores[0], f"m_{number}") is not None:
            self.named.append(f"m_{number}")
            for store in self.stores:
                save_kernels(store)
                search(store, f"s_new{self.steps}", "working", [f"m_{number}"], [number])

    def ask(self, k: int) -> None:
        save_kernels(self.stores[0])
        requests.enqueue(self.stores[0], device="cpu", payload={"kernel_id": KERNELS[k].id}, client="cli:2")
        self.waiting.append(KERNELS[k].id)


def save_kernels(store: Store) -> None:
    """As whoever measures, forecasts or searches does first."""
    tasks.save(store, TASK)
    for one in KERNELS:
        kernels.save(store, one)


acts = st.lists(
    st.one_of(
        st.tuples(st.just("measure"), ways),
        st.tuples(st.just("forecast"), pairs),
        st.tuples(st.just("quarantine"), st.integers(0, 15)),
        st.tuples(st.just("search"), st.integers(0, 15)),
        st.tuples(st.just("ask"), kernel),
        st.just(("die", None)),
    ),
    max_size=6,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(readings, said, asked, st.lists(st.integers(0, 15), max_size=2), acts, st.integers(1, 3))
def test_whatever_others_write_and_wherever_it_dies_nothing_that_is_needed_goes(
    measured: list[Any], forecast: list[Any], waiting: list[Any], in_search: list[int], others: Any, batch: int
) -> None:
    with TemporaryDirectory() as folder:
        path, whole = Path(folder).resolve() / "k.db", Path(folder).resolve() / "whole.db"
        with Store.open(path) as store:
            fill(store, measured, forecast, waiting, in_search)
        shutil.copy(path, whole)  # the last one to close has emptied the log
        left = list(others)

        def between(done: int, of: int) -> None:
            if left:
                kind, which = left.pop(0)
                if kind == "die":
                    raise Died
                outside.act(kind, which)

        with Store.open(path) as store, Store.open(path, timeout_s=1.0) as other, Store.open(whole) as copy:
            outside = Others(other, copy)
            for _ in range(1 + len(others)):
                try:
                    forget(store, CUT, batch=batch, on_progress=between)
                    break
                except Died:
                    continue
            assert store.read("PRAGMA foreign_key_check") == []
            assert asked_for_but_waiting(store) == asked_for_but_waiting(copy)
            assert all(kernels.get(store, one) is not None for one in outside.waiting)
            assert all(measurements.get(store, one) is not None for one in outside.named)
            assert not store.read("SELECT id FROM decisions WHERE forecast_id NOT IN (SELECT id FROM forecasts)")
            last = ends(store)
            forget(store, CUT)  # what was kept to be on the safe side
            assert sum(retention.forgettable(store, CUT).rows.values()) == 0
            assert asked_for_but_waiting(store) == asked_for_but_waiting(copy)
            assert ends(store) == last


def asked_for_but_waiting(store: Store) -> dict[str, Any]:
    answers = asked_for(store)
    answers["unfinished"] = len([one for one in answers["unfinished"] if one.client != "cli:2"])
    return answers


WAY = (1, None, "cpu", "ok", None, "quick")


def rest(store: Store, table: str) -> set[str]:
    return {row[0] for row in store.read(f"SELECT id FROM {table}")}


@pytest.mark.parametrize(
    ("act", "table", "stays"),
    [
        # Nothing new: of five readings the newest two, of four forecasts the newest, two kernels that are named.
        (None, "measurements", {"m_3", "m_4"}),
        (None, "forecasts", {"f_3"}),
        (None, "kernels", {KERNELS[0].id, KERNELS[1].id, KERNELS[4].id}),
        # After the first batch, which is a forecast: what somebody would have to know to verify, and what is verified.
        (("forecast", (1, 0, "cpu", "agent:a")), "measurements", {"m_0", "m_1", "m_2", "m_3", "m_4", }),
        (("measure", (4, 0, "cpu", "ok", None, "quick")), "forecasts", {"f_1", "f_2", "f_3"}),
        # A doubt about the newest reading: then others stand for it.
        (("doubt", 4), "measurements", {"m_0", "m_1", "m_2", "m_3", "m_4"}),
        (("search", 2), "measurements", {"m_2", "m_3", "m_4"}),
        (("ask", 3), "kernels", {KERNELS[0].id, KERNELS[1].id, KERNELS[3].id, KERNELS[4].id}),
        (("measure", (2, 3, "cpu", "ok", None, "quick")), "kernels", {one.id for one in KERNELS}),
    ],
)  # fmt: skip
def test_what_is_written_after_the_first_batch_keeps_what_it_needs(
    tmp_path: Path, act: tuple[str, Any] | None, table: str, stays: set[str]
) -> None:
    with Store.open(tmp_path.resolve() / "k.db") as store:
        fill(
            store,
            [(WAY, day) for day in (1, 2, 3, 4, 5)],
            [((4, 0, "cpu", "agent:a"), day) for day in (1, 2, 3, 4)],
            [],
            [],
        )
        others = Others(store, store)
        told: list[int] = []

        def between(done: int, of: int) -> None:
            told.append(done)
            if act is not None and len(told) == 1:
                others.written_once(*act)

        forget(store, CUT, batch=1, on_progress=between)
        new = {one for one in rest(store, table) if "_new" in one}
        assert rest(store, table) - new == stays
        assert store.read("PRAGMA foreign_key_check") == []


def test_a_request_goes_before_the_reading_that_it_ended_with(tmp_path: Path) -> None:
    with Store.open(tmp_path.resolve() / "k.db") as store:
        fill(store, [(WAY, day) for day in (1, 2, 3, 4, 5)], [], [(k, "completed", "cli:1") for k in (0, 1, 2)], [])
        found = forget(store, CUT, batch=1)
        # The last request stays, and with it what it ended with.
        assert found.rows["requests"] == 2
        assert rest(store, "measurements") == {"m_2", "m_3", "m_4"}


class Watched(Store):
    """Notes how many rows each of its transactions has touched."""

    touched: list[int]

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        with super().write() as db:
            before = db.total_changes
            yield db
            self.touched.append(db.total_changes - before)


@pytest.fixture
def many(tmp_path: Path) -> Iterator[Watched]:
    """A thousand superseded readings, and as many kernels that nothing names."""
    with Watched.open(tmp_path.resolve() / "k.db") as store:
        store.touched = []
        fill(store, [], [], [], [])
        way = (1, None, "cpu", "ok", None, "quick")
        measurements.save(store, reading("m_0", way, moment(1)))
        spare = Kernel.make(
            language="c", name="spare.c", source="int spare;", launches=(Launch(entry="f", args=("a",)),),
            task_id=TASK.id,
        )  # fmt: skip
        kernels.save(store, spare)
        with store.write() as db:
            for table, origin in (("measurements", "m_0"), ("kernels", spare.id)):
                columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
                copied = [{"id": "id || '_' || n", "seq": "1000 + n"}.get(column, column) for column in columns]
                db.execute(
                    f"WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1000) "
                    f"INSERT INTO {table} ({', '.join(columns)}) "
                    f"SELECT {', '.join(copied)} FROM {table}, counted WHERE id = ?",
                    (origin,),
                )
            db.execute("UPDATE kernels SET created_at = ?", (moment(1),))
        store.touched.clear()
        yield store


def test_no_transaction_is_long_and_after_each_another_writer_has_its_turn(many: Watched) -> None:
    told: list[tuple[int, int]] = []
    with Store.open(many.path, timeout_s=1.0) as other:

        def between(done: int, of: int) -> None:
            told.append((done, of))
            with other.write() as db:  # raises StoreLocked where forgetting keeps the lock
                db.execute("UPDATE searches SET updated_at = updated_at")

        found = forget(many, CUT, batch=100, on_progress=between)
    assert found.rows["measurements"] >= 998 and found.rows["kernels"] >= 1000
    assert len(many.touched) >= 20 and max(many.touched) <= 100
    assert len(told) == len(many.touched) and told[-1][0] == told[-1][1] == sum(found.rows.values())


def test_the_space_comes_back_in_steps(many: Watched) -> None:
    with many.write() as db:
        db.execute("CREATE TABLE ballast AS SELECT randomblob(1 << 20) AS bytes")
    with many.write() as db:
        db.execute("DROP TABLE ballast")
    many.touched.clear()
    assert many.free_bytes() >= 1 << 20
    many.shrink(step_pages=64)
    assert len(many.touched) >= 4  # 256 pages at least
    assert many.free_bytes() == 0
    assert many.read("PRAGMA integrity_check")[0][0] == "ok"


def test_a_store_from_before_is_rewritten_once_and_then_shrinks_in_steps(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "k.db"
    with Store.open(path):
        pass
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA auto_vacuum = 0")
    db.execute("VACUUM")
    db.close()
    with Watched.open(path) as store:
        store.touched = []
        for steps in (0, 4):
            with store.write() as db:
                db.execute("CREATE TABLE ballast AS SELECT randomblob(1 << 20) AS bytes")
            with store.write() as db:
                db.execute("DROP TABLE ballast")
            store.touched.clear()
            store.shrink(step_pages=64)
            assert store.free_bytes() == 0 and len(store.touched) >= steps
        assert path.stat().st_size < 1 << 20
        assert (store.journal_mode, store.read("PRAGMA integrity_check")[0][0]) == ("wal", "ok")
