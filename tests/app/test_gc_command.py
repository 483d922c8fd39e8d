"""`kforecast gc` over a real store and a real cache."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from kforecast.app.gc import age_of, size_text
from kforecast.app.main import run
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.store import kernels, measurements, tasks
from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.store.models import Kernel, Launch, Measurement
from kforecast.store.paths import store_path

Capture = pytest.CaptureFixture[str]
DAY = 86_400


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with four old readings of one kernel, and a cache with one old entry, one new, one folder; its path."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("KFORECAST_CACHE_DIR", str(cache))
    monkeypatch.setenv("KFORECAST_RUNTIME_DIR", str(tmp_path / "run"))
    (cache / "c").mkdir(parents=True, mode=0o700)
    entry = cache / "cuda" / "ab" / "abcd"
    entry.mkdir(parents=True)
    for file in (cache / "c" / "old.so", cache / "c" / "new.so", entry / "entry.json"):
        file.write_bytes(b"x" * 1000)
    for path in (cache / "c" / "old.so", entry / "entry.json", entry):
        os.utime(path, (time.time() - 200 * DAY, time.time() - 200 * DAY))
    task = builtin_task("softmax_rows")
    kernel = Kernel.make(
        language="c", name="a.c", source="int x;", launches=(Launch(entry="f", args=("x",)),), task_id=task.id
    )
    with Store.open() as store:
        tasks.save(store, task)
        kernels.save(store, kernel)
        for number in range(4):
            measurements.save(
                store,
                Measurement(
                    id=f"m_{number}", kernel_id=kernel.id, task_id=task.id, task_name=task.name, device="cpu",
                    device_id="cpu-1", lane="host-code", launch_mode="process", effort="quick", verdict="ok", reason="",
                    time_us=1.0, created_at=f"2020-01-0{number + 1}T00:00:00.000000Z",
                ),
            )  # fmt: skip
    return cache


def count() -> int:
    with Store.open_readonly() as store:
        return len(measurements.find(store))


def test_a_dry_run_says_what_would_go_and_touches_nothing(stored: Path, capsys: Capture) -> None:
    assert run(["gc", "--dry-run"]) == 0
    page = capsys.readouterr().out
    assert "Would drop 2 rows" in page and "measurements     2" in page and "in 2 entries" in page
    assert max(map(len, page.splitlines())) <= 80 or str(store_path()) in page
    assert count() == 4
    assert (stored / "c" / "old.so").exists()


def test_old_rows_and_unused_entries_go(stored: Path, capsys: Capture) -> None:
    assert run(["gc", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"]["measurements"], found["cache_entries"], found["dry_run"]) == (2, 2, False)
    assert count() == 2
    assert [path.name for path in sorted(stored.rglob("*")) if path.is_file()] == ["new.so"]


@pytest.mark.parametrize("folder", ["triton/cd/cdef", "programs/cd/cdef", "torch/cdef"])
def test_entries_of_every_language_go(stored: Path, folder: str, capsys: Capture) -> None:
    entry = stored / folder
    entry.mkdir(parents=True)
    (entry / "entry.json").write_text("{}")
    for path in (entry / "entry.json", entry):
        os.utime(path, (time.time() - 200 * DAY, time.time() - 200 * DAY))
    assert run(["gc", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cache_entries"] == 3
    assert not entry.exists()


def test_what_is_younger_than_asked_stays(stored: Path, capsys: Capture) -> None:
    assert run(["gc", "--older-than", "520w", "--json"]) == 0
    assert sum(json.loads(capsys.readouterr().out)["rows"].values()) == 0
    assert count() == 4


def test_what_was_used_just_now_stays_whatever_is_asked(stored: Path, capsys: Capture) -> None:
    assert run(["gc", "--older-than", "0h"]) == 0
    assert (stored / "c" / "new.so").exists()


def test_without_a_store_there_is_nothing_to_do_and_none_is_made(capsys: Capture) -> None:
    for arguments in (["gc", "--dry-run"], ["gc"]):
        assert run(arguments) == 0
        assert " 0 rows" in capsys.readouterr().out
    assert not store_path().exists()


@pytest.mark.parametrize("text", ["", "90", "d", "-3d", "1y", "999999w"])
def test_an_age_that_is_none(text: str) -> None:
    with pytest.raises(InputError):
        age_of(text)


def test_ages_and_sizes() -> None:
    assert (age_of("12h"), age_of("30d"), age_of("8W")) == (timedelta(hours=12), timedelta(30), timedelta(56))
    assert [size_text(number) for number in (0, 1023, 1024, 5 << 20, 3 << 30)] == [
        "0 B", "1023 B", "1.0 KiB", "5.0 MiB", "3.0 GiB"
    ]  # fmt: skip
