"""Recordings: taken out of a store, kept in a file, and the one that ships."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.store.models import Measurement
from kforecast.tools.demo.recording import SHIPPED, Recording, read, record, write
from kforecast.tools.search.events import Measured, Proposed
from kforecast.tools.search.log import counts
from kforecast.tools.search.state import fold
from kforecast.tools.search.use import search

POOL = f"replay:{Path(__file__).parents[3] / 'docs/results/h200_kernels.jsonl.gz'}"


@pytest.fixture(scope="module")
def shipped() -> Recording:
    return read(SHIPPED)


def test_the_shipped_recording_is_small_and_says_where_it_is_from(shipped: Recording) -> None:
    assert SHIPPED.stat().st_size < 400_000
    assert "H200" in shipped.about
    assert all(found.environment["gpu"] == "NVIDIA H200" for found in shipped.of_kind("measurement").values())


def test_it_names_no_place_of_the_machine_it_was_made_on() -> None:
    text = gzip.decompress(SHIPPED.read_bytes()).decode()
    assert not re.search(r'"/(home|root|tmp|work|Users)/', text)
    assert "replay:" not in text


def test_its_searches_are_what_their_logs_say(shipped: Recording) -> None:
    for found, log in shipped.searches:
        state = fold(log)
        assert (counts(state), state.events) == (found.counts, found.events)
        assert state.winner.log2 == found.best_log2


def test_it_holds_all_that_its_logs_name(shipped: Recording) -> None:
    kernels, measured = shipped.of_kind("kernel"), shipped.of_kind("measurement")
    for found, log in shipped.searches:
        assert found.seed_id in kernels
        assert all(event.kernel_id in kernels for event in log if isinstance(event, Proposed))
        assert all(event.measurement_id in measured for event in log if isinstance(event, Measured))
    assert all(one.kernel_id in kernels and one.baseline_id is None for one in measured.values())


@pytest.fixture
def made(tmp_path: Path) -> Recording:
    """A recording of a short search over recorded kernels."""
    with Store.open() as store:
        result = search("histogram", budget="8m", device=POOL, detached=False, store=store, verify=False)
        return record(store, [result.search_id], about="a test", device="cuda:0", recorded="2026-11-30", seconds=10.0)


def test_what_is_written_is_what_is_read(made: Recording, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    assert write(made, path) == path.stat().st_size
    assert read(path) == made
    again = tmp_path / "again.jsonl.gz"
    write(made, again)
    assert again.read_bytes() == path.read_bytes()


def test_a_measurement_of_a_replay_is_the_recorded_one_by_itself(made: Recording) -> None:
    measured = list(made.of_kind("measurement").values())
    assert measured and all(isinstance(one, Measurement) and one.device == "cuda:0" for one in measured)
    assert all(one.log2_speedup is None and one.comparison == "none" for one in measured)
    assert any(one.time_us for one in measured)


def test_an_unknown_search_is_bad_input(made: Recording) -> None:
    with Store.open() as store, pytest.raises(InputError, match="no search"):
        record(store, ["s_none"], about="", device="cpu", recorded="", seconds=1.0)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"no gzip", "cannot be read"),
        (gzip.compress(b'{"kind": "recording", "version": 1}\n' * 3)[:-9], "damaged"),
        (gzip.compress(b""), "no recorded search"),
        (gzip.compress(b'{"kind": "recording", "version": 2}\n'), "version 1"),
        (gzip.compress(b'{"kind": "recording", "version": 1}\n{"kind": "event"}\n'), "r.jsonl.gz:2"),
        (gzip.compress(b'{"kind": "recording", "version": 1}\n{"kind": "cake", "noun": {}}\n'), "r.jsonl.gz:2"),
        (gzip.compress(b'{"kind": "recording", "version": 1}\n{"kind": "task", "noun": []}\n'), "r.jsonl.gz:2"),
        (gzip.compress(json.dumps([1]).encode()), "r.jsonl.gz:1"),
    ],
    # Names of their own: packed bytes hold the second in which they were made, and two workers may differ in that.
    ids=["not packed", "cut off", "empty", "version 2", "no noun", "cake", "a list as a task", "a list"],
)
def test_what_is_no_recording_is_told_with_its_place(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=told):
        read(path)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read(Path("/nowhere/r.jsonl.gz"))
