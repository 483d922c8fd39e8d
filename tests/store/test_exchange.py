"""Export and import: what goes out comes back, twice is once, and bad input changes nothing."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kforecast.store import forecasts, kernels, measurements, profiles, requests, searches, tasks
from kforecast.store.clock import utc_now
from kforecast.store.database import Store
from kforecast.store.errors import InputError, StoreError
from kforecast.store.exchange import Filters, export, import_
from kforecast.store.identity import new_id
from kforecast.store.models import CaseResult, Decision, Forecast, Kernel, Measurement, Task
from kforecast.store.searches import LoggedEvent, Search, SearchNode

MakeMeasurement = Callable[..., Measurement]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBER = st.none() | st.floats(allow_nan=False)


def contents(store: Store) -> list[Any]:
    return [
        sorted(tasks.find(store), key=lambda noun: noun.id),
        sorted(kernels.find(store), key=lambda noun: noun.id),
        measurements.find(store, limit=None),
        forecasts.find(store, limit=None),
        forecasts.decisions(store, limit=None),
        profiles.TABLE.find(store, order="seq", limit=None),
        [(one.id, searches.events(store, one.id), searches.nodes(store, one.id)) for one in searches.recent(store)],
    ]


def make_search(saved: list[Kernel]) -> Search:
    return Search(
        id="s_1", state="working", task_name="scale", device="cpu", policy="gain", generator="edits",
        forecaster="base-rate", seed_id=saved[0].id, task_id=saved[0].task_id, request_key="once",
        created_at=utc_now(), updated_at=utc_now(),
    )  # fmt: skip


def event(ordinal: int) -> LoggedEvent:
    return LoggedEvent(ordinal, "measured", f"n_{ordinal}", 0.5 * ordinal, f'{{"kind":"measured","n":{ordinal}}}')


def grow(store: Store, saved: list[Kernel], length: int) -> None:
    """One more event and candidate, the last of `length`."""
    node = SearchNode(
        id=f"n_{length - 1}", search_id="s_1", ordinal=length - 1, kernel_id=saved[length - 1].id, state="measured",
        parent_id=None if length == 2 else f"n_{length - 2}", created_at=utc_now(),
    )  # fmt: skip
    search = make_search(saved).model_copy(update={"events": length, "best_id": node.kernel_id})
    searches.append(store, search, [event(length - 1)], [node])


@pytest.fixture
def full(
    store: Store, saved: list[Kernel], make_measurement: MakeMeasurement, make_forecast: Callable[..., Forecast]
) -> Store:
    """A store with every kind of noun in it."""
    measurements.save(store, make_measurement(labels=("fast-math", "stateful"), diagnostics="é\n\x00"))
    measurements.save(store, make_measurement(baseline_id=None, device="cuda:0", device_id="GPU-1"))
    forecast = make_forecast()
    decision = Decision(id=new_id("d"), forecast_id=forecast.id, kind="trust", reason="narrow", created_at=utc_now())
    forecasts.save(store, forecast, decision)
    profiles.save(store, "cpu-1", "memory", {"copy_gb_s": 10.5})
    searches.create(store, make_search(saved), [event(0)])
    grow(store, saved, 2)
    requests.enqueue(store, device="cpu", payload={}, client="c")
    return store


@pytest.mark.parametrize("suffix", ["jsonl", "db"])
def test_what_goes_out_comes_back_and_twice_is_once(full: Store, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"out.{suffix}"
    counts = export(full, file)
    assert counts == {
        "task": 1, "kernel": 3, "measurement": 2, "forecast": 1, "decision": 1, "profile": 1, "search": 1,
    }  # fmt: skip
    with Store.open(tmp_path / "other.db") as other:
        first = import_(other, file)
        assert (first.added, sum(first.skipped.values())) == (counts, 0)
        assert contents(other) == contents(full)
        again = import_(other, file)
        assert (again.skipped, sum(again.added.values())) == (counts, 0)
        assert contents(other) == contents(full)
        assert requests.recent(other) == []
    assert import_(full, file).skipped == counts


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(TEXT, NUMBER, st.floats(), st.booleans()), max_size=4),
    suffix=st.sampled_from(["jsonl", "db"]),
)
def test_any_measurements_survive_the_round_trip(
    *,
    store: Store,
    saved: list[Kernel],
    make_measurement: MakeMeasurement,
    tmp_path: Path,
    rows: list[tuple[str, float | None, float, bool]],
    suffix: str,
) -> None:
    for text, number, time, flag in rows:
        measurements.save(
            store,
            make_measurement(
                reason=text,
                time_us=number,
                censored=flag,
                cases=(CaseResult(case=text, time_us=time),),
                environment={text: [text, number if number is None or abs(number) < 1e300 else 0, flag]},
            ),
        )
    file = tmp_path / f"{new_id('x')}.{suffix}"
    export(store, file)
    with Store.open(tmp_path / f"{new_id('x')}.db") as other:
        import_(other, file)
        assert list(map(str, contents(other)[2])) == list(map(str, contents(store)[2]))
        import_(other, file)
        assert len(measurements.find(other, limit=None)) == len(measurements.find(store, limit=None))


def test_a_csv_has_one_measurement_a_row_with_names(full: Store, tmp_path: Path) -> None:
    assert export(full, tmp_path / "out.csv") == {"measurement": 2}
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["device"] for row in rows] == ["cpu", "cuda:0"]
    assert [row["baseline"] for row in rows] == ["kernel 1", ""]
    assert {row["kernel"] for row in rows} == {"kernel 0"}
    assert rows[0]["speedup"] == "2.0"
    assert rows[0]["labels"] == "fast-math stateful"


def test_a_database_is_one_file_for_any_sqlite_program(full: Store, tmp_path: Path) -> None:
    export(full, tmp_path / "out.db")
    assert sorted(file.name for file in tmp_path.glob("out*")) == ["out.db"]
    db = sqlite3.connect(f"{(tmp_path / 'out.db').as_uri()}?mode=ro&immutable=1", uri=True)
    assert db.execute("SELECT count(*) FROM recent_measurements").fetchone() == (2,)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.close()


def test_a_store_in_use_can_be_imported_as_it_is(full: Store, tmp_path: Path) -> None:
    with Store.open(tmp_path / "other.db") as other:
        import_(other, full.path)
        assert contents(other) == contents(full)


def exported(store: Store, file: Path, **filters: str) -> dict[str, list[Any]]:
    export(store, file, filters=Filters(**filters), overwrite=True)
    found: dict[str, list[Any]] = {}
    for line in file.read_text().splitlines()[1:]:
        entry = json.loads(line)
        found.setdefault(entry["kind"], []).append(entry["noun"])
    return found


def test_filters_take_along_what_the_chosen_refer_to(
    *, full: Store, tmp_path: Path, task: Task, make_kernel: Callable[..., Kernel], make_measurement: MakeMeasurement
) -> None:
    other = task.model_copy(update={"name": "another"})
    tasks.save(full, other)
    lonely = make_kernel(9, task_id=other.id)
    kernels.save(full, lonely)
    measurements.save(
        full,
        make_measurement(
            kernel_id=lonely.id,
            baseline_id=None,
            task_id=other.id,
            task_name="another",
            created_at="2020-01-01T00:00:00Z",
        ),
    )
    file = tmp_path / "out.jsonl"

    by_device = exported(full, file, device="GPU-1")
    assert [noun["device"] for noun in by_device["measurement"]] == ["cuda:0"]
    assert len(by_device["kernel"]) == len(by_device["task"]) == 1
    assert set(by_device) == {"task", "kernel", "measurement"}

    by_task = exported(full, file, task="another")
    assert [noun["id"] for noun in by_task["kernel"]] == [lonely.id]
    assert [noun["name"] for noun in by_task["task"]] == ["another"]
    assert len(by_task["measurement"]) == 1

    recent = exported(full, file, since="2026-01-01")
    assert len(recent["measurement"]) == 2
    assert len(recent["kernel"]) == 2
    assert len(recent["decision"]) == 1

    for filters in ({"device": "cpu"}, {"task": "vector_add"}, {"since": "2026"}, {"task": "none"}):
        exported(full, file, **filters)
        with Store.open(tmp_path / f"{new_id('x')}.db") as target:
            import_(target, file)


def test_an_export_overwrites_only_when_asked_and_never_half(
    full: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        export(full, file)
    with monkeypatch.context() as patch:
        patch.setattr(profiles.Profile, "model_dump_json", None)
        with pytest.raises(TypeError):
            export(full, file, overwrite=True)
    assert file.read_text() == "mine"
    assert [one.name for one in tmp_path.glob(".out*")] == []
    export(full, file, overwrite=True)
    assert file.read_text() != "mine"


def test_an_export_that_cannot_be_written_says_why(full: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="suffix names no export format"):
        export(full, tmp_path / "out.xlsx")
    with pytest.raises(InputError, match=r"cannot be written.*none"):
        export(full, tmp_path / "none" / "out.jsonl")
    export(full, tmp_path / "out.txt", format="jsonl")


def test_a_full_disk_under_an_export_is_not_the_stores(
    full: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Store) -> None:
        raise StoreError("The disk or the quota is full", value=self.path, next_step="Free some space.")

    monkeypatch.setattr(Store, "write", refuse)
    with pytest.raises(InputError, match=r"export cannot be written \(The disk or the quota is full\): .*out\.db"):
        export(full, tmp_path / "out.db")
    assert not (tmp_path / "out.db").exists()


def lines_of(store: Store, file: Path) -> list[str]:
    export(store, file, overwrite=True)
    return file.read_text().splitlines()


def kind_of(line: str) -> str:
    return str(json.loads(line)["kind"])


def change(line: str, **changes: Any) -> str:
    entry = json.loads(line)
    entry["noun"].update(changes)
    return json.dumps(entry)


@pytest.mark.parametrize(
    ("kind", "spoil", "message"),
    [
        ("measurement", lambda line: line[:-5], "is no JSON"),
        ("measurement", lambda line: "[1]", 'has no "kind"'),
        ("measurement", lambda line: line.replace('"measurement"', '"measure"', 1), "of no known kind: measure"),
        ("measurement", lambda line: change(line, verdict="splendid"), "is no measurement: verdict"),
        ("measurement", lambda line: change(line, mood="good"), "is no measurement: mood"),
        ("measurement", lambda line: change(line, kernel_id="k_none"), "refers to a kernel .*k_none"),
        ("decision", lambda line: change(line, forecast_id="f_none"), "refers to a forecast .*f_none"),
        ("kernel", lambda line: change(line, source="void g(void) {}"), "not the hash of its content"),
        ("kernel", lambda line: change(line, task_id="t_none"), "not the hash of its content"),
        ("export", lambda line: '{"kind": "export", "version": 99}', "format version 99"),
        ("task", lambda line: json.dumps({"kind": "task"}), "is no task"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_imported(
    full: Store, tmp_path: Path, kind: str, spoil: Callable[[str], str], message: str
) -> None:
    file = tmp_path / "out.jsonl"
    lines = lines_of(full, file)
    number = next(index for index, line in enumerate(lines) if kind_of(line) == kind)
    lines[number] = spoil(lines[number])
    file.write_text("\n".join(lines))
    with Store.open(tmp_path / "other.db") as other:
        before = contents(other)
        with pytest.raises(InputError, match=rf"{message}.*out\.jsonl:{number + 1}\b.*Nothing was imported"):
            import_(other, file)
        assert contents(other) == before


def test_the_same_id_with_other_content_is_refused_by_name(full: Store, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    lines = lines_of(full, file)
    number = next(index for index, line in enumerate(lines) if kind_of(line) == "measurement")
    measurement_id = json.loads(lines[number])["noun"]["id"]
    spoilt = change(lines[number], verdict="crashed")
    before = contents(full)
    file.write_text("\n".join([*lines[:number], spoilt, *lines[number + 1 :]]))
    with pytest.raises(InputError, match=rf"differs .*in the store: {measurement_id}.*jsonl:{number + 1}"):
        import_(full, file)
    file.write_text("\n".join([*lines, spoilt]))
    with Store.open(tmp_path / "other.db") as other:
        with pytest.raises(InputError, match=rf"differs .*at out\.jsonl:{number + 1}: {measurement_id}"):
            import_(other, file)
        assert measurements.find(other) == []
    assert contents(full) == before


def test_a_kernel_that_differs_in_its_name_only_is_the_same(full: Store, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    lines = [change(line, name="renamed") if kind_of(line) == "kernel" else line for line in lines_of(full, file)]
    file.write_text("\n\n".join(reversed(lines)))
    before = contents(full)
    assert import_(full, file).skipped["kernel"] == 3
    assert contents(full) == before


def test_what_cannot_be_imported_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        import_(store, tmp_path / "none.jsonl")
    (tmp_path / "data.csv").touch()
    with pytest.raises(InputError, match=r"Only \.jsonl, \.jsonl\.gz and \.db"):
        import_(store, tmp_path / "data.csv")
    (tmp_path / "junk.db").write_bytes(b"junk" * 1000)
    with pytest.raises(StoreError, match=r"no SQLite database.*junk\.db"):
        import_(store, tmp_path / "junk.db")
    db = sqlite3.connect(tmp_path / "foreign.db")
    db.execute("CREATE TABLE precious (id)")
    db.close()
    with pytest.raises(StoreError, match=r"not a store of kforecast.*foreign\.db"):
        import_(store, tmp_path / "foreign.db")


def test_a_gzipped_export_is_read_as_it_is(full: Store, tmp_path: Path) -> None:
    export(full, tmp_path / "out.jsonl")
    packed = tmp_path / "out.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "out.jsonl").read_bytes()))
    with Store.open(tmp_path / "other.db") as other:
        import_(other, packed)
        assert contents(other) == contents(full)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-40], lambda data: b"no gzip", lambda data: data[:30] + b"\xff" * 99]
)
def test_a_gzip_file_that_cannot_be_unpacked_changes_nothing(
    full: Store, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    export(full, tmp_path / "out.jsonl")
    packed = tmp_path / "out.jsonl.gz"
    packed.write_bytes(damage(gzip.compress((tmp_path / "out.jsonl").read_bytes())))
    with Store.open(tmp_path / "other.db") as other:
        with pytest.raises(InputError, match="cannot be unpacked"):
            import_(other, packed)
        assert contents(other) == [[], [], [], [], [], [], []]


def test_a_search_that_went_on_elsewhere_is_brought_up_to_date(
    full: Store, saved: list[Kernel], tmp_path: Path
) -> None:
    """The longer log of one search stands; an older export changes nothing; another history is refused."""
    early, late = tmp_path / "early.jsonl", tmp_path / "late.jsonl"
    export(full, early)
    with Store.open(tmp_path / "other.db") as other:
        import_(other, early)
        assert searches.by_key(other, "once") is None  # whoever asked with it asked elsewhere
        grow(full, saved, 3)
        export(full, late)
        assert import_(other, late).skipped["search"] == 1
        found = searches.get(other, "s_1")
        assert found is not None and (found.events, found.best_id) == (3, saved[2].id)
        assert searches.events(other, "s_1") == searches.events(full, "s_1")
        assert [node.id for node in searches.nodes(other, "s_1")] == ["n_1", "n_2"]
        before = contents(other)
        import_(other, early)
        assert contents(other) == before
        changed = late.read_text().replace('"clock":0.5', '"clock":0.75').replace('"clock": 0.5', '"clock": 0.75')
        late.write_text(changed)
        with pytest.raises(InputError, match="differs"):
            import_(other, late)
        assert contents(other) == before


def test_a_search_being_worked_on_is_not_overwritten(full: Store, saved: list[Kernel], tmp_path: Path) -> None:
    with Store.open(tmp_path / "other.db") as other:
        export(full, tmp_path / "early.jsonl")
        import_(other, tmp_path / "early.jsonl")
        assert searches.take_lease(other, "s_1", "worker:1", lambda owner: True, stale_before="") is None
        grow(full, saved, 3)
        export(full, tmp_path / "late.jsonl")
        with pytest.raises(InputError, match="worked on"):
            import_(other, tmp_path / "late.jsonl")
        assert len(searches.events(other, "s_1")) == 2
