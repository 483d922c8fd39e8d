from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from kforecast.bench.languages.cuda.cache import BuildCache
from kforecast.store.errors import DeviceError


def test_an_entry_comes_back_with_its_files(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    assert cache.get("ab01") is None
    put = cache.put("ab01", {"n": 1}, {"a.bin": b"\x00\x01", "b.txt": b""})
    got = BuildCache(tmp_path).get("ab01")
    assert got is not None
    assert got == put
    assert {name: path.read_bytes() for name, path in got.files.items()} == {"a.bin": b"\x00\x01", "b.txt": b""}


def test_damaged_entries_are_removed_and_can_be_built_again(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    damage = [
        lambda folder: (folder / "a").write_bytes(b"12x"),
        lambda folder: (folder / "a").write_bytes(b"12"),
        lambda folder: (folder / "a").unlink(),
        lambda folder: (folder / "entry.json").write_text("{"),
        lambda folder: (folder / "entry.json").write_text("[]"),
        lambda folder: (folder / "entry.json").unlink(),
    ]
    for harm in damage:
        cache.put("ab02", {}, {"a": b"123"})
        harm(tmp_path / "ab" / "ab02")
        assert cache.get("ab02") is None
        assert not (tmp_path / "ab" / "ab02").exists()
        cache.put("ab02", {}, {"a": b"123"})
        harm(tmp_path / "ab" / "ab02")
        cache.put("ab02", {}, {"a": b"123"})
        got = cache.get("ab02")
        assert got is not None
        assert got.files["a"].read_bytes() == b"123"


def test_many_writers_and_readers_of_one_key_see_whole_entries(tmp_path: Path) -> None:
    content = os.urandom(200_000)
    wrong: list[str] = []

    def work() -> None:
        cache = BuildCache(tmp_path)
        for _ in range(15):
            entry = cache.get("cd03") or cache.put("cd03", {"v": 7}, {"a": content})
            if entry.data != {"v": 7} or entry.files["a"].read_bytes() != content:
                wrong.append("half an entry")

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert [path.name for path in (tmp_path / "cd").iterdir()] == ["cd03"]


def test_the_entries_used_longest_ago_give_way(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path, max_bytes=2500)
    for index in range(4):
        cache.put(f"ef{index}", {}, {"a": bytes(1000)})
    old = time.time() - 10_000
    for index in range(4):
        os.utime(tmp_path / "ef" / f"ef{index}", (old + index, old + index))
    assert cache.get("ef0") is not None  # used now: the newest
    draft = tmp_path / "ef" / ".draft-left"
    draft.mkdir()
    os.utime(draft, (old, old))
    cache.evict()
    assert sorted(path.name for path in (tmp_path / "ef").iterdir()) == ["ef0", "ef3"]


def test_entries_in_use_are_kept_even_above_the_limit(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path, max_bytes=10)
    for index in range(3):
        cache.put(f"ef{index}", {}, {"a": bytes(1000)})
    cache.evict()
    assert all(cache.get(f"ef{index}") for index in range(3))


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "ab").write_text("a file where the folder should be")
    with pytest.raises(DeviceError, match=r"the cache cannot be written \(File exists\).*KFORECAST_CACHE_DIR"):
        BuildCache(tmp_path).put("ab03", {}, {"a": b"123"})


def test_a_cache_that_can_only_be_read_still_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = BuildCache(tmp_path)
    put = cache.put("ab04", {}, {"a": b"123"})

    def refuse(path: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(os, "utime", refuse)
    assert cache.get("ab04") == put
