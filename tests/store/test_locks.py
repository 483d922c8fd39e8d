"""The lock between processes: one holder, turns for the others, and nothing left of a dead holder."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kforecast.store.errors import StoreError
from kforecast.store.faults import StoreLocked
from kforecast.store.locks import fair_lock

HOLD = """
import sys
from pathlib import Path
from kforecast.store.locks import fair_lock
with fair_lock(Path(sys.argv[1]), timeout_s=5):
    print("held", flush=True)
    sys.stdin.readline()
"""


def somebody_has(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_there_is_one_holder_and_after_it_the_next(tmp_path: Path) -> None:
    guarded = tmp_path / "x.db"
    with (
        fair_lock(guarded, timeout_s=1),
        pytest.raises(StoreLocked, match=r"locked for 0\.02 s"),
        fair_lock(guarded, timeout_s=0.02),
    ):
        pass
    with fair_lock(guarded, timeout_s=1):
        pass
    assert not guarded.exists()


def test_who_lets_go_and_asks_again_comes_after_who_waits(tmp_path: Path) -> None:
    guarded = tmp_path / "x.db"
    order = ["first"]

    def wait() -> None:
        with fair_lock(guarded, timeout_s=60):
            order.append("waiting")

    waiting = threading.Thread(target=wait)
    with fair_lock(guarded, timeout_s=60):
        waiting.start()
        while not somebody_has(guarded.with_name("x.db-turn")):
            time.sleep(0.001)
    with fair_lock(guarded, timeout_s=60):
        order.append("again")
    waiting.join()
    assert order == ["first", "waiting", "again"]


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    guarded = tmp_path / "x.db"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(guarded)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(StoreLocked), fair_lock(guarded, timeout_s=0.02):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with fair_lock(guarded, timeout_s=1):
        pass


def test_a_child_forked_while_it_is_held_does_not_keep_it(tmp_path: Path) -> None:
    guarded = tmp_path / "x.db"
    reading, writing = os.pipe()
    with fair_lock(guarded, timeout_s=1):
        child = os.fork()
        if child == 0:
            os.read(reading, 1)
            os._exit(0)
    with fair_lock(guarded, timeout_s=1):
        pass
    os.write(writing, b"x")
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)


def test_a_lock_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreError, match=r"cannot be opened.*none/x\.db-lock"),
        fair_lock(tmp_path / "none" / "x.db", timeout_s=1),
    ):
        pass
