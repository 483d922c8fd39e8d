"""`kforecast status --follow` as people and pipes see it."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from kforecast.app.follow import change_line, follow, view
from kforecast.app.main import run
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.store import kernels, requests, tasks
from kforecast.store.database import Store
from kforecast.store.models import Kernel, Launch
from kforecast.tools.following import Follower

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def waiting() -> str:
    """A store with one request that waits; its id."""
    task = builtin_task("softmax_rows")
    launch = Launch(entry="f", args=("x",))
    with Store.open() as store:
        tasks.save(store, task)
        kernels.save(store, Kernel.make(language="c", name="a.c", source="int x;", launches=(launch,), task_id=task.id))
        return requests.enqueue(store, device="cpu", payload={}, client="cli:1").id


def test_piped_it_is_a_line_a_change(waiting: str, capsys: Capture) -> None:
    follow(Follower(), limit=5, plain=False, as_json=False, ticks=1)
    store, request = capsys.readouterr().out.splitlines()
    assert store.split()[1] == "store" and store.endswith("kforecast.db")
    assert request.split()[1:] == ["request", waiting, "queued", "cpu", "cli:1", "0", "before", "it"]


def test_after_json_it_is_an_object_a_line(waiting: str, capsys: Capture) -> None:
    follow(Follower(), limit=5, plain=False, as_json=True, ticks=1)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["kind"] for one in found] == ["store", "request"]
    assert found[1]["request_id"] == waiting
    assert all(one["at"].endswith("Z") for one in found)


def test_a_store_that_cannot_be_read_is_a_line(capsys: Capture) -> None:
    with Follower() as follower:
        (change,) = follower.poll()
    assert change_line(change).endswith("kforecast.db: there is no store yet; waiting for one")


@pytest.mark.parametrize("rows", [2, 6, 9, 23])
def test_the_view_fits_however_much_there_is(waiting: str, rows: int) -> None:
    with Store.open() as store:
        for _ in range(40):
            requests.enqueue(store, device="cpu", payload={}, client="cli:1")
    with Follower() as follower:
        follower.poll()
        lines = view(follower.present(), "another store", rows=rows)
    assert len(lines) <= rows
    assert "another store" in lines[0]
    assert "Ctrl-C" in lines[-1]


def test_the_view_before_anything_was_read() -> None:
    assert len(view(None, "no store", rows=20)) == 2


def test_plain_needs_follow_and_an_id_stands_alone(capsys: Capture) -> None:
    assert run(["status", "--plain"]) == 2
    assert "--follow" in capsys.readouterr().err
    assert run(["status", "m_1", "--follow"]) == 2


def test_on_a_terminal_it_draws_over_itself_and_ctrl_c_is_its_ordinary_end(waiting: str) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kforecast", "status", "--follow"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
    )
    os.close(theirs)
    seen = b""
    deadline = time.monotonic() + 60
    while seen.count(b"Ctrl-C ends it") < 2 and time.monotonic() < deadline:
        if select.select([ours], [], [], 0.5)[0]:
            seen += os.read(ours, 65536)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    os.close(ours)
    assert waiting.encode() in seen
    assert b"\x1b[1A" in seen or b"A\r" in seen
    assert b"Traceback" not in seen
