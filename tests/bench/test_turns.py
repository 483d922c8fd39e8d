"""Turns on a shared device: never anybody beside one who is alone, nobody kept out, nothing left by the dead."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kforecast.bench.broker.lock import device_lock, holder
from kforecast.bench.faults import Cancelled
from kforecast.bench.turns import Held, Turns
from kforecast.store.errors import DeviceError
from kforecast.store.paths import runtime_dir

DEVICE = "turns-test"

WORKER = """
import os, random, sys, time
from kforecast.bench.turns import Turns
turns, seed, rounds, path = Turns("turns-test"), int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
chance = random.Random(seed)
log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def say(word, kind):
    os.write(log, f"{word} {kind} {seed}\\n".encode())
for _ in range(rounds):
    kind = "alone" if chance.random() < 0.4 else "beside"
    with getattr(turns, kind)():
        say("in", kind)
        time.sleep(chance.uniform(0, 0.003))
        say("out", kind)
print(turns.waited_s, turns.alone_s)
"""

HOLDER = """
import sys, time
from kforecast.bench.broker.lock import device_lock
from kforecast.bench.turns import Turns
kind, shared = sys.argv[1], sys.argv[2] == "shared"
with device_lock("turns-test", device="cuda:9", purpose=f"hold it {kind}", shared=shared):
    turns = Turns("turns-test")
    with getattr(turns, kind)():
        print("held", flush=True)
        time.sleep(600)
"""

KILLED = """
import os, signal
from kforecast.bench.broker.lock import device_lock
for number in range(70):
    child = os.fork()
    if child == 0:
        with device_lock("turns-test", device="cuda:9", purpose=f"number {number}", shared=True):
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
"""


_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    """A test that fails leaves nobody behind who holds the device: the others would wait for him."""
    yield
    while _started:
        end(_started.pop())


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True)
    _started.append(process)
    return process


def start_holder(kind: str, how: str) -> subprocess.Popen[str]:
    """A process that holds the device, once it does."""
    process = start(HOLDER, kind, how)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_processes_at_random_never_meet_one_who_is_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    processes = [start(WORKER, str(seed), "60", str(path)) for seed in range(3)]
    spent = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    inside: list[str] = []
    most = 0
    for line in path.read_text().splitlines():
        word, kind, _ = line.split()
        if word == "in":
            assert "alone" not in inside, "somebody came in beside one who was alone"
            assert kind == "beside" or not inside, "somebody became alone beside others"
            inside.append(kind)
        else:
            inside.remove(kind)
        most = max(most, len(inside))
    assert inside == []
    assert most > 1, "nobody ever was beside another"
    for text in spent:
        waited_s, alone_s = map(float, text.split())
        assert waited_s > 0
        assert alone_s > 0


def test_who_wants_to_be_alone_is_not_kept_out_by_those_who_come_and_go_together() -> None:
    """Two overlap without a gap, so that there is never a moment with nobody inside."""
    stop = threading.Event()
    step = threading.Barrier(2)

    def beside(first: bool) -> None:
        turns = Turns(DEVICE)
        if not first:
            step.wait()
        while not stop.is_set():
            with turns.beside():
                if first and step.n_waiting:
                    step.wait()
                time.sleep(0.004)

    others = [in_thread(lambda first=first: beside(first)) for first in (True, False)]  # type: ignore[misc]
    turns, got = Turns(DEVICE), 0
    try:
        with turns.measuring(_after(30.0)):
            for _ in range(5):
                with turns.alone():
                    got += 1
    finally:
        stop.set()
        for thread in others:
            thread.join(30)
    assert got == 5


def test_those_beside_are_not_kept_out_by_those_who_want_to_be_alone() -> None:
    stop = threading.Event()

    def alone() -> None:
        turns = Turns(DEVICE)
        while not stop.is_set():
            with turns.alone():
                time.sleep(0.002)

    others = [in_thread(alone) for _ in range(2)]
    turns, got = Turns(DEVICE), 0
    try:
        with turns.measuring(_after(30.0)):
            for _ in range(5):
                with turns.beside():
                    got += 1
    finally:
        stop.set()
        for thread in others:
            thread.join(30)
    assert got == 5


def test_inside_a_turn_there_are_no_others() -> None:
    turns = Turns(DEVICE)
    with turns.alone(), turns.alone(), turns.beside():
        pass
    with turns.beside():
        with turns.beside():
            pass
        with pytest.raises(AssertionError, match="wait for each other"), turns.alone():
            pass
    with turns.alone():
        pass


@pytest.mark.parametrize("kind", ["alone", "beside"])
def test_the_turn_of_a_killed_process_is_free(kind: str) -> None:
    process = start_holder(kind, "shared")
    waits = Turns(DEVICE)
    with waits.measuring(_after(0.05)), pytest.raises(Cancelled), waits.alone():
        pytest.fail("alone beside another")
    end(process)
    with waits.measuring(_after(30.0)), waits.alone():
        pass


def test_a_cancelled_one_waits_no_longer_unless_he_has_to() -> None:
    process = start_holder("alone", "shared")
    turns = Turns(DEVICE)
    with turns.measuring(lambda: True):
        with pytest.raises(Cancelled), turns.beside():
            pytest.fail("beside one who is alone")
        killed = threading.Event()

        def kill() -> None:
            time.sleep(0.1)
            killed.set()
            end(process)

        killer = in_thread(kill)
        with turns.beside(patient=True):
            assert killed.is_set()
        killer.join()


def test_waiting_is_no_holding() -> None:
    with Turns(DEVICE).measuring(lambda: False) as before:
        assert before.waited_s == 0
    process = start_holder("alone", "shared")
    turns = Turns(DEVICE)
    with turns.measuring(lambda: False) as held:
        killer = in_thread(lambda: (time.sleep(0.2), end(process))[0])
        with held.alone():
            time.sleep(0.01)
        killer.join()
        begin = time.monotonic()
        assert held.waited_s >= 0.2
        assert held.alone_s >= 0.01
        assert held.alone_s <= held.seconds + time.monotonic() - begin
    with turns.measuring(lambda: False) as later:
        assert later.waited_s == later.alone_s == 0


def test_without_turns_all_of_the_time_is_alone() -> None:
    held = Held()
    with held.alone():
        assert held.waited_s == 0
        assert 0 <= held.alone_s <= held.seconds


# -- the device's lock -------------------------------------------------------------------------------------------------


def test_several_share_a_device_and_one_who_wants_all_of_it_waits_for_them() -> None:
    with device_lock(DEVICE, device="cuda:9", purpose="a", shared=True):
        process = start_holder("beside", "shared")
        found = holder(DEVICE)
        assert found is not None
        assert (found["pid"], found["device"], found["purpose"]) == (os.getpid(), "cuda:9", "a; hold it beside")
        with (
            pytest.raises(DeviceError, match="hold it beside"),
            device_lock(DEVICE, device="cuda:9", purpose="all", wait_s=0.05),
        ):
            pytest.fail("held twice")
        end(process)
        found = holder(DEVICE)
        assert found is not None
        assert found["purpose"] == "a"
    assert holder(DEVICE) is None


def test_two_holders_have_two_records_whatever_their_numbers() -> None:
    """Numbers of processes that are 64 apart met in one place: who came first was forgotten."""
    with device_lock(DEVICE, device="cuda:9", purpose="a", shared=True):
        with device_lock(DEVICE, device="cuda:9", purpose="b", shared=True):
            found = holder(DEVICE)
            assert found is not None
            assert found["purpose"] == "a; b"
        found = holder(DEVICE)
        assert found is not None
        assert found["purpose"] == "a"
    assert holder(DEVICE) is None


def test_a_place_of_one_who_died_is_taken_again() -> None:
    with device_lock(DEVICE, device="cuda:9", purpose="a", shared=True):
        subprocess.run([sys.executable, "-c", KILLED], check=True)
        found = holder(DEVICE)
    assert found is not None
    assert found["purpose"] == "a"
    (path,) = runtime_dir().glob(f"device-{DEVICE}.lock")
    assert path.stat().st_size <= 64 * 4096


def test_who_has_all_of_the_device_is_met_by_nobody() -> None:
    process = start_holder("alone", "whole")
    found = holder(DEVICE)
    assert found is not None
    assert (found["pid"], found["purpose"]) == (process.pid, "hold it alone")
    with (
        pytest.raises(DeviceError, match="hold it alone"),
        device_lock(DEVICE, device="cuda:9", purpose="a", shared=True, wait_s=0.05),
    ):
        pytest.fail("shared with one who has all of it")
    end(process)
    assert holder(DEVICE) is None


def test_the_holder_told_is_the_one_to_stop() -> None:
    with device_lock(DEVICE, device="cuda:9", purpose="for a broker", owner="broker:77:1", shared=True):
        found = holder(DEVICE)
    assert found is not None
    assert found["pid"] == 77


def _after(seconds: float) -> Callable[[], bool]:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until
