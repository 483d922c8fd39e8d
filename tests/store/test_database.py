"""One file, opened one way, written one way: what survives, what is refused, and with which next step."""

from __future__ import annotations

import os
import pickle
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kforecast.store import filesystem, kernels, requests, schema
from kforecast.store.database import Store
from kforecast.store.errors import InputError, StoreError
from kforecast.store.faults import StoreLocked, StoreMissing
from kforecast.store.models import Kernel


def ask(store: Store, number: int = 0) -> str:
    return requests.enqueue(store, device="cpu", payload={"number": number, "pad": "x" * 500}, client="c").id


def count(store: Store) -> int:
    return int(store.read("SELECT count(*) FROM requests")[0][0])


def test_a_fresh_store_is_private_and_in_wal_mode(store: Store, path: Path) -> None:
    ask(store)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
    assert store.journal_mode == "wal"
    assert store.notice is None
    assert store.read("PRAGMA foreign_keys")[0][0] == 1
    assert store.read("PRAGMA wal_autocheckpoint")[0][0] == 0
    assert store.read("PRAGMA user_version")[0][0] == schema.LATEST


def test_what_was_written_is_there_after_opening_again(path: Path) -> None:
    with Store.open(path) as store:
        ids = {ask(store) for _ in range(3)}
    with Store.open(path) as store:
        assert {one.id for one in requests.recent(store)} == ids


def test_an_exception_in_the_block_undoes_the_whole_block(store: Store) -> None:
    ask(store)
    with pytest.raises(KeyboardInterrupt), store.write() as db:
        db.execute("DELETE FROM requests")
        raise KeyboardInterrupt
    assert count(store) == 1
    ask(store)
    assert count(store) == 2


def test_a_refused_row_undoes_the_whole_block(store: Store, make_kernel: Callable[..., Kernel]) -> None:
    with pytest.raises(StoreError, match="refused a row"), store.write() as db:
        db.execute("INSERT INTO tasks (id, name, title, json, created_at, seq) VALUES ('t', '', '', '{}', '2', 1)")
    with pytest.raises(StoreError, match="refused a row"):
        kernels.save(store, make_kernel())
    assert kernels.find(store) == []


@pytest.mark.parametrize(
    ("column", "value"), [("payload", "no json"), ("state", "lost"), ("attempts", "many"), ("created_at", "yesterday")]
)
def test_the_tables_refuse_what_the_nouns_would(store: Store, column: str, value: str) -> None:
    ask(store)
    with pytest.raises(StoreError, match="refused a row"), store.write() as db:
        db.execute(f"UPDATE requests SET {column} = ?", (value,))


def test_a_second_transaction_in_the_same_thread_is_refused(store: Store) -> None:
    with store.write(), pytest.raises(StoreError, match="already open"), store.write():
        pass
    assert ask(store)


def test_a_snapshot_sees_one_moment(store: Store, path: Path) -> None:
    ask(store)
    with Store.open_readonly(path) as reader:
        with reader.snapshot():
            assert count(reader) == 1
            ask(store)
            assert count(reader) == 1
        assert count(reader) == 2


def test_threads_share_a_store(store: Store) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(20):
                ask(store, number)
                count(store)
        except StoreError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert count(store) == 160


def test_a_reader_cannot_write(store: Store, path: Path) -> None:
    with Store.open_readonly(path) as reader:
        with pytest.raises(StoreError, match="reading only"):
            ask(reader)
        with pytest.raises(StoreError, match="cannot be written"):
            reader.read("DELETE FROM requests")


def test_a_reader_makes_no_store(path: Path) -> None:
    with pytest.raises(StoreMissing, match="no store yet"):
        Store.open_readonly(path)
    assert not path.parent.exists()


def test_an_empty_file_is_no_store_to_a_reader_and_becomes_one_to_a_writer(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with pytest.raises(StoreMissing, match="no store yet"):
        Store.open_readonly(path)
    with Store.open(path) as store:
        assert ask(store)


def test_a_relative_path_is_refused() -> None:
    for way in (Store.open, Store.open_readonly):
        with pytest.raises(InputError, match=r"relative: here\.db"):
            way(Path("here.db"))


def test_a_newer_schema_is_refused_by_name(store: Store, path: Path) -> None:
    store.read("PRAGMA user_version = 99")
    for way in (Store.open, Store.open_readonly):
        with pytest.raises(StoreError, match=r"schema 99.*Upgrade kforecast"):
            way(path)


def test_an_older_schema_is_no_ones_to_migrate_while_reading(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE later (id TEXT) STRICT;\n"))
    monkeypatch.setattr(schema, "LATEST", schema.LATEST + 1)
    request_id = ask(store)
    with pytest.raises(StoreError, match="older schema"):
        Store.open_readonly(path)
    with Store.open(path) as newer:
        assert requests.get(newer, request_id) is not None
        assert newer.read("SELECT count(*) FROM later")[0][0] == 0
    Store.open_readonly(path).close()


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(store)
    bad = "CREATE TABLE later (id TEXT) STRICT;\nCREATE TABLE requests (id TEXT) STRICT;\n"
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, bad))
        patch.setattr(schema, "LATEST", schema.LATEST + 1)
        with pytest.raises(StoreError, match="already exists"):
            Store.open(path)
    assert store.read("SELECT name FROM sqlite_master WHERE name = 'later'") == []
    with Store.open(path) as again:
        assert count(again) == 1


def test_another_programs_database_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE precious (id)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a store of kforecast"):
        Store.open(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_named(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database at all" * 100)
    for way in (Store.open, Store.open_readonly):
        with pytest.raises(StoreError, match=r"no SQLite database.*kforecast\.db.*Move it away"):
            way(path)
    assert path.read_bytes().startswith(b"not a database")


def test_a_damaged_store_is_said_to_be_damaged(path: Path) -> None:
    with Store.open(path) as store:
        for number in range(200):
            ask(store, number)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    for way in (Store.open, Store.open_readonly):
        with pytest.raises(StoreError, match=r"damaged.*\.recover"), way(path) as store:
            requests.recent(store)


def test_a_directory_in_place_of_the_store_is_named(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.open(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission_is_named(path: Path) -> None:
    path.parent.mkdir(mode=0o500)
    with pytest.raises(StoreError, match="cannot be made"):
        Store.open(path)


def test_a_full_disk_loses_nothing(store: Store) -> None:
    ask(store)
    pages = store.read("PRAGMA page_count")[0][0]
    store.read(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match=r"quota is full.*Free some space"), store.write() as db:
        db.execute("UPDATE requests SET payload = ?", (f'"{"x" * 1_000_000}"',))
    store.read("PRAGMA max_page_count = 1000000")
    ask(store)
    assert count(store) == 2


def test_a_locked_store_says_so_and_how_long_it_waited(store: Store, path: Path) -> None:
    with (
        Store.open(path, timeout_s=0.05) as other,
        store.write(),
        pytest.raises(StoreLocked, match=r"locked for 0\.05 s"),
    ):
        ask(other)
    foreign = sqlite3.connect(path, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    with Store.open(path, timeout_s=0.05) as ours, pytest.raises(StoreLocked):
        ask(ours)
    foreign.close()
    assert ask(store)


def test_writing_to_a_deleted_or_replaced_store_is_an_error_not_a_loss(store: Store, path: Path) -> None:
    ask(store)
    moved = path.with_name("moved.db")
    path.rename(moved)
    with pytest.raises(StoreMissing, match="deleted or replaced"):
        ask(store)
    path.touch()
    with pytest.raises(StoreMissing, match="deleted or replaced"):
        ask(store)
    path.unlink()
    moved.rename(path)
    ask(store)
    assert count(store) == 2


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        ask(store)


def test_a_store_does_not_cross_a_fork(store: Store) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store.read("SELECT 1")
            answer = b"read"
        except StoreError:
            answer = b"refused"
        store.close()
        os.write(writing, answer)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 100) == b"refused"
    os.close(reading)
    os.close(writing)
    assert ask(store)


def test_a_store_is_not_pickled(store: Store) -> None:
    with pytest.raises(StoreError, match="Send its path"):
        pickle.dumps(store)


def test_a_link_leads_to_the_same_store(store: Store, path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with Store.open(link) as linked:
        ask(linked)
        assert linked.path == store.path
    assert count(store) == 1
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["link.db"]


def test_a_long_log_is_copied_back(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "checkpoint_bytes", 100_000)
    log = path.with_name(path.name + "-wal")
    with Store.open(path) as small:
        lengths = []
        for number in range(100):
            ask(small, number)
            lengths.append(log.stat().st_size)
    assert 0 in lengths
    assert max(lengths) < 200_000
    assert count(store) == 100


def test_a_reader_that_stays_holds_no_writer_up(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "checkpoint_bytes", 100_000)
    ask(store)
    log = path.with_name(path.name + "-wal")
    with Store.open(path, timeout_s=60) as writer:
        with Store.open_readonly(path) as reader, reader.snapshot():
            assert count(reader) == 1
            for number in range(100):
                ask(writer, number)
            assert count(reader) == 1
            assert log.stat().st_size > 100_000
        for number in range(400):
            ask(writer, number)
        assert log.stat().st_size < 1_000_000
    assert count(store) == 501


MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / {network} rw shared:2 master:1 - {kind} server:/home rw
31 30 0:41 / {network}/local rw - tmpfs tmpfs rw
"""


def test_the_file_system_is_that_of_the_deepest_mount(tmp_path: Path) -> None:
    network = tmp_path / "home of mine"
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(network=str(network).replace(" ", "\\040"), kind="nfs4"))
    assert filesystem.network_filesystem(network / "a" / "b.db", mounts) == "nfs4"
    assert filesystem.network_filesystem(network / "local" / "b.db", mounts) is None
    assert filesystem.network_filesystem(tmp_path / "home of mine, too", mounts) is None
    assert filesystem.network_filesystem(network, tmp_path / "none") is None
    mounts.write_text(MOUNTS.format(network=network, kind="btrfs"))
    assert filesystem.network_filesystem(network, mounts) is None


@pytest.mark.parametrize("there_already", [False, True])
def test_a_network_file_system_gets_no_wal(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there_already: bool
) -> None:
    if there_already:
        with Store.open(path) as store:
            ask(store)
            assert store.journal_mode == "wal"
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(network=path.parent, kind="nfs"))
    monkeypatch.setattr(filesystem, "MOUNTINFO", mounts)
    with Store.open(path) as store, Store.open(path) as other:
        assert store.journal_mode == other.journal_mode == "delete"
        assert store.notice is not None
        assert "nfs" in store.notice
        assert "KFORECAST_DB" in store.notice
        ask(store)
        ask(other)
        with Store.open_readonly(path) as reader:
            assert count(reader) == 2 + there_already
            assert reader.notice == store.notice
    assert not path.with_name(path.name + "-wal").exists()


OPEN_AND_ASK = """
import sys
from pathlib import Path
from kforecast.store.database import Store
from kforecast.store import requests
sys.stdin.readline()
with Store.open(Path(sys.argv[1])) as store:
    requests.enqueue(store, device="cpu", payload={}, client="c")
"""


def test_five_processes_may_make_the_store_at_once(path: Path) -> None:
    racers = [
        subprocess.Popen([sys.executable, "-c", OPEN_AND_ASK, str(path)], stdin=subprocess.PIPE, text=True)
        for _ in range(5)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    for racer in racers:
        racer.communicate()
    assert [racer.returncode for racer in racers] == [0] * 5
    with Store.open(path) as store:
        assert count(store) == 5
        assert store.read("PRAGMA integrity_check")[0][0] == "ok"


def test_opening_imports_nothing_heavy() -> None:
    code = "import sys, kforecast.store.database; print(sorted({'numpy', 'sqlite_utils', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
