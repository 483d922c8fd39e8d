"""A process that answers stands still from then on, before anybody looks at the answer."""

from __future__ import annotations

import dataclasses
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kforecast.bench import roundtrip
from kforecast.bench.devices.cpu.defences import Defences
from kforecast.bench.devices.cpu.lane import CpuLane
from kforecast.bench.faults import KernelFault
from kforecast.bench.header.signature import signatures
from kforecast.bench.lane import Program
from kforecast.bench.roundtrip import Standstill
from kforecast.store.paths import cache_dir
from kforecast.tools.kernels import Asked, load_file

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
        group.stop_at_answer(connection, pid)
        connection.send(b"begin")
        arrived = select.poll()
        arrived.register(connection, select.POLLIN)
        assert arrived.poll(30_000)
        if wanted:
            stands(pid)
        before = counted(count)
        time.sleep(0.2)
        assert (counted(count) == before) is wanted
        group.freeze()
        group.thaw()
        time.sleep(0.2)
        assert counted(count) != before


def test_the_stop_of_an_answer_is_waited_for() -> None:
    """One that came after the next command would never end: that call would be overdue, and nobody's fault."""
    with works_on() as (connection, count, pid):
        group = Standstill(wanted=True)
        group.number = pid
        group.stop_at_answer(connection, pid)
        connection.send(b"begin")
        assert connection.recv(100) == b"done"
        group.freeze()
        stands(pid)
        os.killpg(pid, signal.SIGCONT)  # as if it were still on its way out of the call that answered
        late = threading.Timer(0.3, os.killpg, (pid, signal.SIGSTOP))
        late.start()
        group.freeze()
        late.join()
        group.thaw()
        before = counted(count)
        time.sleep(0.2)
        assert counted(count) != before


def test_who_cannot_be_stopped_is_told_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roundtrip, "_STANDS_S", 0.2)
    with works_on() as (connection, _, pid):
        group = Standstill(wanted=True)
        group.number = pid
        group.stop_at_answer(connection, os.getpid())  # as if the stop of the group did not reach who answers
        with pytest.raises(KernelFault, match="ran on") as raised:
            group.freeze()
    assert raised.value.verdict == "tampered"


def stands(pid: int) -> None:
    """Wait until the process is stopped."""
    until = time.monotonic() + 30
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < until
        time.sleep(0.001)


C_FILE = """/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
void vector_add(const float* a, const float* b, float* c, int N) { for (int i = 0; i < N; i++) c[i] = a[i] + b[i]; }
"""


@pytest.mark.parametrize("namespaces", [True, False])
def test_a_thousand_calls_one_right_after_the_other(namespaces: bool, tmp_path: Path) -> None:
    """None is lost between a stop and the next command, while other work takes the processors away."""
    path = tmp_path / "add.c"
    path.write_text(C_FILE)
    named = load_file(path, Asked())
    parsed = signatures(named.kernel.source, named.kernel.language, named.kernel.includes)
    lane = CpuLane(cache_dir(), defences=dataclasses.replace(Defences(), namespaces=namespaces))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        with lane.session(named.task, call_deadline_s=3.0, cancelled=lambda: False) as session:
            session.add("candidate", Program(named.kernel, parsed, lane.compile(named.kernel, parsed)))
            case = named.task.checked[0]
            arena = session._arena(case, ["candidate"])
            with arena, session._start("candidate", case, arena) as process:
                for _ in range(1000):
                    process.nothing()
                    process.call(3.0)
    finally:
        for one in busy:
            one.kill()
            one.wait()
