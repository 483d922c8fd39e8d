"""A process that answers stands still from then on, before anybody looks at the answer."""

from __future__ import annotations

import mmap
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kforecast.bench.roundtrip import Standstill, round_trip

WORKS_ON = """
import mmap, os, socket, sys, threading
connection, file = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
count = mmap.mmap(file, 4096)
def work(at):
    while True:
        count[at : at + 8] = (int.from_bytes(count[at : at + 8], "little") + 1).to_bytes(8, "little")
connection.send(b"ready")
connection.recv(100)
threading.Thread(target=work, args=(0,), daemon=True).start()
connection.send(b"done")
work(8)
"""


@contextmanager
def works_on() -> Iterator[tuple[socket.socket, mmap.mmap, int]]:
    """A process, leader of its group, that answers one command and then counts on, in two threads."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    file = os.memfd_create("count")
    os.ftruncate(file, 4096)
    process = subprocess.Popen(
        [sys.executable, "-c", WORKS_ON, str(theirs.fileno()), str(file)],
        pass_fds=(theirs.fileno(), file),
        process_group=0,
    )
    try:
        with ours, theirs, mmap.mmap(file, 4096) as count:
            assert ours.recv(100) == b"ready"
            yield ours, count, process.pid
    finally:
        process.kill()
        process.wait()
        os.close(file)


def counted(count: mmap.mmap) -> tuple[int, int]:
    return int.from_bytes(count[0:8], "little"), int.from_bytes(count[8:16], "little")


@pytest.mark.parametrize("wanted", [True, False])
def test_who_answers_is_stopped_before_anybody_looks(wanted: bool) -> None:
    with works_on() as (connection, count, pid):
        group = Standstill(wanted=wanted)
        group.number = pid
        group.stop_at_answer(connection)
        connection.send(b"begin")
        time.sleep(0.3)  # nobody reads the answer
        before = counted(count)
        time.sleep(0.2)
        assert (counted(count) == before) is wanted
        group.thaw()
        time.sleep(0.2)
        assert counted(count) != before


def test_a_stop_that_comes_late_costs_a_moment() -> None:
    """It may arrive when the next command has been sent already: then nobody would ever answer that."""
    with works_on() as (connection, _, pid):
        group = Standstill(wanted=True)
        group.number = pid
        group.stop_at_answer(connection)
        os.killpg(pid, 19)
        elapsed = round_trip(connection, b"begin", 20.0, lambda: False, group.thaw_late)
        assert elapsed is not None
        assert elapsed < 10e9
        assert connection.recv(100) == b"done"
