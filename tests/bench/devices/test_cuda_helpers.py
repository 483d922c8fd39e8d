"""The session's helper processes: deadlines, deaths, and a device that does not come back. No GPU needed."""

from __future__ import annotations

import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from kforecast.bench.devices.cuda import helpers
from kforecast.bench.devices.cuda.channel import Channel
from kforecast.bench.devices.cuda.helpers import Helper, HelperDied, Launchers
from kforecast.bench.devices.quarantine import clear_device, quarantine_device, quarantined_device
from kforecast.bench.faults import Cancelled
from kforecast.bench.turns import Turns
from kforecast.store.errors import DeviceError, InputError

SCRIPT = """
import os, socket, sys, time
from kforecast.bench.devices.cuda.channel import Channel, ChannelClosed
channel = Channel(socket.socket(fileno=int(sys.argv[1])))
channel.send({"ready": os.getpid()})
while True:
    try:
        message = channel.receive()
    except ChannelClosed:
        sys.exit(0)
    what = os.environ.get("PRETEND", "echo")
    if message["verb"] == "die" or (what == "wedged" and message["verb"] == "trust"):
        print("last words", flush=True)
        os._exit(3)
    if message["verb"] == "hang":
        time.sleep(3600)
    while "GATE" in os.environ and message["verb"] != "echo" and not os.path.exists(os.environ["GATE"]):
        time.sleep(0.01)
    if message["verb"] == "open" and what == "no mapping":
        channel.send({"refused": "CUDA_ERROR_INVALID_VALUE", "text": "no such memory", "call": 0})
    elif message["verb"] == "pid":
        channel.send({"pid": os.getpid()})
    elif message["verb"] == "poison":
        print("last words", flush=True)
        channel.send({"fault": "CUDA_ERROR_ILLEGAL_ADDRESS", "text": "an illegal address", "call": 0})
        time.sleep(3600)
    elif message["verb"] == "bad":
        channel.send({"input_error": {"what": "no such thing", "value": "x", "next": "Try y."}})
    elif message["verb"] == "broken":
        channel.send({"error": "out of order"})
    else:
        channel.send({"echo": message})
"""


@pytest.fixture(autouse=True)
def pretend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The processes are Python scripts that speak the protocol; everything around them is real."""
    script = tmp_path / "pretend.py"
    script.write_text(textwrap.dedent(SCRIPT))
    popen = helpers.subprocess.Popen

    def start(argv: list[str], **rest: object) -> object:
        return popen([sys.executable, str(script), *argv[3:]], **rest)

    monkeypatch.setattr(helpers.subprocess, "Popen", start)


def test_an_answer_comes_back() -> None:
    helper = Helper("oracle", 0)
    assert helper.ask("anything", number=3)["echo"] == {"verb": "anything", "number": 3}
    helper.close()
    assert not helper.alive


def test_a_deadline_kills_and_reaps() -> None:
    helper = Helper("launcher", 0)
    with pytest.raises(HelperDied) as caught:
        helper.ask("hang", deadline_s=0.2)
    assert caught.value.overdue
    assert not helper.alive


def test_a_death_brings_the_last_words() -> None:
    helper = Helper("launcher", 0)
    with pytest.raises(HelperDied) as caught:
        helper.ask("die")
    assert not caught.value.overdue
    assert caught.value.output == "last words"


def test_an_input_error_crosses_over() -> None:
    helper = Helper("oracle", 0)
    with pytest.raises(InputError, match="no such thing"):
        helper.ask("bad")
    with pytest.raises(DeviceError, match="out of order"):
        helper.ask("broken")
    helper.close()


def test_closing_twice_is_no_error_and_leaves_no_descriptor() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    helper = Helper("oracle", 0)
    helper.ask("anything")
    helper.close()
    helper.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_dead_launcher_is_replaced_by_the_spare(tmp_path: Path) -> None:
    launchers = Launchers(0, "GPU-test", lambda: tmp_path / "trusted.cubin")
    first = launchers.current("00")
    with pytest.raises(HelperDied):
        first.ask("die")
    second = launchers.current("00")
    assert second is not first
    assert second.ask("anything")["echo"]["verb"] == "anything"
    launchers.close()


def test_a_wedged_device_is_set_aside_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRETEND", "wedged")
    launchers = Launchers(0, "GPU-wedged", lambda: tmp_path / "trusted.cubin")
    with pytest.raises(DeviceError, match="set aside"):
        launchers.current("00")
    told = quarantined_device("GPU-wedged")
    assert told is not None
    assert "last words" in told["reason"]
    monkeypatch.setenv("PRETEND", "echo")
    launchers.current("00")
    assert quarantined_device("GPU-wedged") is None
    launchers.close()


def test_memory_that_cannot_be_mapped_is_no_kernel_s_fault_nor_the_device_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launchers = Launchers(0, "GPU-unmapped", lambda: tmp_path / "trusted.cubin")
    launchers.current("00")
    monkeypatch.setenv("PRETEND", "no mapping")
    with pytest.raises(DeviceError, match="cannot map"):
        launchers.fresh("00")  # the spare was started before
        launchers.fresh("00")
    assert quarantined_device("GPU-unmapped") is None
    assert launchers.alive() is None
    monkeypatch.setenv("PRETEND", "echo")
    with pytest.raises(DeviceError, match="cannot map"):
        launchers.fresh("00")  # the spare that was started meanwhile
    assert launchers.fresh("00").alive
    launchers.close()


def test_the_first_reason_of_a_quarantine_stays() -> None:
    quarantine_device("GPU-x", "first")
    quarantine_device("GPU-x", "second")
    told = quarantined_device("GPU-x")
    assert told is not None and told["reason"] == "first"
    clear_device("GPU-x")
    clear_device("GPU-x")
    assert quarantined_device("GPU-x") is None


def test_the_channel_refuses_what_is_no_message() -> None:
    import socket

    from kforecast.bench.devices.cuda.channel import ChannelClosed

    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    theirs.sendall(b"\xff\xff\xff\xff")
    with pytest.raises(ChannelClosed):
        channel.receive(1.0)
    os.close(theirs.detach())
    channel.close()


# -- on a device that others measure on --------------------------------------------------------------------------------


def others_get_the_device(*, alone: bool) -> bool:
    """Whether another process would get a turn at once; the lock does not tell threads from processes."""
    other = Turns("GPU-shared")
    with other.measuring(lambda: True):
        try:
            with other.alone() if alone else other.beside():
                return True
        except Cancelled:
            return False


@pytest.mark.parametrize(
    ("verb", "alone", "shared"),
    [
        ("time", False, False),
        ("empty", False, False),
        ("run", False, True),
        ("run", True, False),
        ("check", False, True),
    ],
)
def test_only_what_is_timed_or_asks_for_it_has_the_device_alone(
    verb: str, alone: bool, shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setenv("GATE", str(gate))
    turns = Turns("GPU-shared")
    helper = Helper("launcher", 0, turns)
    helper.ask("echo")
    answers: list[dict[str, object]] = []

    def ask() -> None:
        with turns.alone() if alone else nullcontext():
            answers.append(helper.ask(verb))

    asked = threading.Thread(target=ask)
    asked.start()
    until = time.monotonic() + 30
    while others_get_the_device(alone=True):
        assert time.monotonic() < until
    assert others_get_the_device(alone=False) == shared
    gate.touch()
    asked.join(30)
    assert answers
    assert others_get_the_device(alone=True)
    helper.close()


def test_for_what_needs_no_device_no_turn_is_waited_for() -> None:
    helper, other = Helper("oracle", 0, Turns("GPU-shared")), Turns("GPU-shared")
    helper.ask("echo")
    with other.alone():
        assert helper.ask("begin")["echo"] == {"verb": "begin"}
    helper.close()


@pytest.mark.parametrize("verb", ["poison", "hang", "die"])
def test_nobody_gets_the_device_before_a_launcher_that_failed_is_reaped(verb: str) -> None:
    """Neither while its context is torn down nor in the moment after its answer."""
    helper = Helper("launcher", 0, Turns("GPU-shared"))
    helper.ask("echo")
    met: list[bool] = []

    def watch() -> None:
        turns = Turns("GPU-shared")
        with turns.alone():
            met.append(helper.alive)

    watcher = threading.Thread(target=watch)
    reap = helper._end

    def slowly() -> None:
        watcher.start()
        time.sleep(0.1)
        assert not met
        reap()

    helper._end = slowly  # type: ignore[method-assign]
    if verb == "poison":
        assert helper.ask(verb)["fault"] == "CUDA_ERROR_ILLEGAL_ADDRESS"
        helper.close()
    else:
        with pytest.raises(HelperDied):
            helper.ask(verb, deadline_s=0.1)
    watcher.join(30)
    assert met == [False]
    helper._end = reap  # type: ignore[method-assign]
    helper.close()


def test_a_cancelled_call_is_over_before_others_get_the_device() -> None:
    helper = Helper("launcher", 0, Turns("GPU-shared"))
    helper.ask("echo")
    with pytest.raises(Cancelled):
        helper.ask("hang", cancelled=lambda: True)
    assert not helper.alive
    assert others_get_the_device(alone=True)
    helper.close()


def test_beside_others_a_call_has_twice_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines: list[float | None] = []

    class Recording(Channel):
        def receive(
            self, deadline_s: float | None = None, cancelled: Callable[[], bool] = lambda: False
        ) -> dict[str, object]:
            deadlines.append(deadline_s)
            return super().receive(deadline_s, cancelled)

    monkeypatch.setattr(helpers, "Channel", Recording)
    turns = Turns("GPU-shared")
    shared, single = Helper("launcher", 0, turns), Helper("launcher", 0)
    for helper in (shared, single):
        helper.ask("echo")
    deadlines.clear()
    for helper in (shared, single):
        for verb in ("run", "time"):
            helper.ask(verb, deadline_s=7.0)
    with turns.alone():
        shared.ask("run", deadline_s=7.0)
    for helper in (shared, single):
        helper.close()
    assert deadlines == [14.0, 7.0, 7.0, 7.0, 7.0]


def test_a_helper_ends_in_a_turn_and_not_before(tmp_path: Path) -> None:
    """It ends by itself where its stream does: its memory is given back then, which nobody may be timed beside."""
    helper, other = Helper("launcher", 0, Turns("GPU-shared")), Turns("GPU-shared")
    pid = int(helper.ask("pid")["pid"])
    with other.alone():
        closing = threading.Thread(target=helper.close)
        closing.start()
        time.sleep(0.3)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state != "Z"
        assert closing.is_alive()
    closing.join(30)
    assert not Path(f"/proc/{pid}").exists()


def test_a_cancelled_measurement_still_ends_its_processes() -> None:
    turns = Turns("GPU-shared")
    helper = Helper("launcher", 0, turns)
    helper.ask("echo")
    with turns.measuring(lambda: True):
        helper.close()
    assert not helper.alive


@pytest.mark.parametrize("turns", [None, Turns("GPU-shared")], ids=["alone", "beside others"])
def test_a_poisoned_launcher_is_out_of_use_tells_what_it_printed_and_is_reaped_when_closed(
    turns: Turns | None, tmp_path: Path
) -> None:
    launchers = Launchers(0, "GPU-poisoned", lambda: tmp_path / "trusted.cubin", turns)
    one = launchers.current("00")
    pid = int(one.ask("pid")["pid"])
    assert one.ask("poison")["fault"] == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert not one.alive
    assert others_get_the_device(alone=True)
    assert "last words" in one.output()
    one.close()
    one.close()
    assert not Path(f"/proc/{pid}").exists()
    assert int(launchers.current("00").ask("pid")["pid"]) != pid
    launchers.close()


def test_one_that_nobody_closed_ends_with_the_others(tmp_path: Path) -> None:
    launchers = Launchers(0, "GPU-poisoned", lambda: tmp_path / "trusted.cubin", Turns("GPU-shared"))
    one = launchers.current("00")
    pid = int(one.ask("pid")["pid"])
    one.ask("poison")
    launchers.close()
    assert not Path(f"/proc/{pid}").exists()
