"""Kill -9, Ctrl-C and upgrades in the middle of a measurement: nothing lost, nothing doubled, nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from brokers import (
    Kernels,
    answer_of,
    ask,
    begun,
    broker_pid,
    candidates,
    free,
    held,
    only_request,
    pid_of,
    start_client,
    until,
)

from kforecast.bench.broker import processes_alive
from kforecast.bench.broker.client import cancel, wait
from kforecast.bench.devices.cpu.lane import CpuLane
from kforecast.bench.header.signature import signatures
from kforecast.bench.languages.c import find_compiler
from kforecast.store import kernels as kernels_of_store
from kforecast.store import measurements, requests
from kforecast.store.database import Store
from kforecast.store.errors import DeviceError
from kforecast.store.models import Kernel
from kforecast.tools.measure import begin

OLDER = """
import sys
from kforecast.bench.broker import protocol
protocol.fingerprint = lambda: "older"  # before anybody takes it from there
"""
OLDER_BROKER = OLDER + "from kforecast.bench.broker import begin; sys.exit(begin.main('cpu'))"
OLDER_CLIENT = OLDER + "from kforecast.app.main import main; main()"


def measured() -> int:
    with Store.open() as store:
        return len(measurements.find(store))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_broker_dies_and_the_client_still_gets_its_one_answer(kernels: Kernels, number: signal.Signals) -> None:
    client = start_client(kernels.slow)
    first = pid_of(begun("timing").owner)
    os.kill(first, number)
    answer = answer_of(client)
    request = only_request()
    assert (answer["verdict"], request.attempts, request.result_id) == ("ok", 2, answer["measurement_id"])
    assert measured() == 1
    assert broker_pid() not in (None, first)


def test_what_waits_outlives_the_broker(kernels: Kernels) -> None:
    with Store.open() as store:
        ask(kernels.slow, wait_s=0, store=store)
        owner = begun("timing").owner
        for _ in range(2):
            ask(kernels.quick, wait_s=0, store=store)
        os.kill(pid_of(owner), signal.SIGKILL)
        assert ask(kernels.quick, store=store).verdict == "ok"
        until(lambda: not requests.unfinished(store), what="the queue is empty")
        states = [one.state for one in requests.recent(store)]
    assert states == ["completed"] * 4
    assert measured() == 4


def test_a_killed_broker_leaves_no_process_and_its_files_go_with_the_next(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    client = start_client(kernels.endless)
    owner = begun().owner
    held()
    (left,) = until(lambda: candidates() and list(temporary.iterdir()), what="a candidate runs")
    client.kill()
    os.kill(pid_of(owner), signal.SIGKILL)
    client.communicate()
    until(lambda: not candidates(), what="the candidate died with its broker")
    assert left.exists()
    assert answer_of(start_client(kernels.quick))["verdict"] == "ok"
    assert not left.exists()
    with Store.open() as store:
        assert [one.state for one in requests.recent(store)] == ["completed", "cancelled"]


def test_a_killed_client_gives_the_device_back(kernels: Kernels) -> None:
    client = start_client(kernels.endless)
    held()
    client.kill()
    client.communicate()
    free()
    until(lambda: not candidates(), what="the candidate is gone")
    assert until(lambda: only_request().state == "cancelled", what="the request is cancelled")
    assert ask(kernels.quick).verdict == "ok"


def test_what_was_killed_without_a_broker_is_tidied_up(kernels: Kernels) -> None:
    client = start_client(kernels.endless, "--no-broker")
    held()
    client.kill()
    client.communicate()
    free()
    until(lambda: not candidates(), what="the candidate died with its client")
    assert ask(kernels.quick, use_broker=False).verdict == "ok"
    with Store.open() as store:
        assert [one.state for one in requests.recent(store)] == ["completed", "cancelled"]


def test_a_queued_request_of_a_killed_client_is_not_measured(kernels: Kernels) -> None:
    with Store.open() as store:
        ask(kernels.endless, wait_s=0, store=store)
        occupying = begun()
        client = start_client(kernels.slow)
        until(lambda: len(requests.unfinished(store)) == 2, what="the second request waits")
        client.kill()
        client.communicate()
        cancel(store, occupying)
        until(lambda: not requests.unfinished(store), what="the queue is empty")
        assert [one.state for one in requests.recent(store)] == ["cancelled"] * 2
    assert measured() == 0


def test_a_detached_request_goes_on_without_its_client(kernels: Kernels) -> None:
    with Store.open() as store:
        assert ask(kernels.slow, wait_s=0, store=store).state == "working"
        assert until(lambda: requests.recent(store)[0].state == "completed", what="it is completed")
    assert measured() == 1


def test_whoever_asks_for_the_same_request_keeps_it_alive(kernels: Kernels) -> None:
    """Two clients with one key: the death of the one is not the end of the other's measurement."""
    script = (
        "import sys; from kforecast.tools.measure import measure\n"
        "print(measure(sys.argv[1], baseline='none', effort='quick', timeout_s=60, request_key='k').state)"
    )
    clients = [
        subprocess.Popen([sys.executable, "-c", script, str(kernels.slow)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    owner = begun("timing").owner
    clients[0].kill()
    clients[0].communicate()
    assert clients[1].communicate(timeout=60)[0] == "completed\n"
    assert pid_of(owner) == broker_pid()
    assert only_request().attempts == 1


@pytest.mark.parametrize("options", [[], ["--no-broker"]], ids=["broker", "no broker"])
def test_ctrl_c_cancels(kernels: Kernels, options: list[str]) -> None:
    client = start_client(kernels.endless, *options)
    held()
    client.send_signal(signal.SIGINT)
    client.communicate(timeout=60)
    assert client.returncode == 130
    assert only_request().state == "cancelled"
    free()
    until(lambda: not candidates(), what="the candidate is gone")


def test_a_broker_of_older_code_is_retired(kernels: Kernels) -> None:
    with subprocess.Popen([sys.executable, "-c", OLDER_BROKER]) as older:
        until(lambda: broker_pid() == older.pid, what="the older broker serves")
        assert ask(kernels.quick).verdict == "ok"
        assert older.wait(timeout=30) == 0
    assert broker_pid() not in (None, older.pid)


def test_a_retired_broker_finishes_its_work_first(kernels: Kernels) -> None:
    command = ["measure", str(kernels.slow), "--baseline", "none", "--effort", "quick", "--json"]
    with subprocess.Popen([sys.executable, "-c", OLDER_BROKER]) as older:
        until(lambda: broker_pid() == older.pid, what="the older broker serves")
        first = subprocess.Popen([sys.executable, "-c", OLDER_CLIENT, *command], stdout=subprocess.PIPE, text=True)
        assert pid_of(begun("timing").owner) == older.pid
        second = start_client(kernels.quick)
        assert answer_of(second)["verdict"] == "ok"
        assert older.wait(timeout=30) == 0
    first.communicate(timeout=60)
    assert first.returncode == 0
    with Store.open() as store:
        assert [(one.state, one.attempts) for one in requests.recent(store)] == [("completed", 1)] * 2


def test_a_broker_takes_over_what_another_process_began_and_left(kernels: Kernels) -> None:
    ask(kernels.quick)
    serving = broker_pid()
    with Store.open() as store:
        first = requests.recent(store)[0]
        left = requests.enqueue(store, device="cpu", payload=first.payload, client="somebody")
        assert requests.claim(store, left.id, "inline:4194304:1") is not None
        until(lambda: not requests.unfinished(store), what="the queue is empty")
        ended = requests.get(store, left.id)
    assert ended is not None
    assert (ended.state, ended.attempts) == ("completed", 2)
    assert broker_pid() == serving


@pytest.fixture
def use_another_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """From the call on this client's compiler is another one, which defines WRONG."""
    other = tmp_path / "other-cc"
    other.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo "gcc 99.1.0"; exit 0; }\nexec gcc -DWRONG "$@"\n')
    other.chmod(0o755)

    def use() -> None:
        monkeypatch.setenv("CC", str(other))
        find_compiler.cache_clear()

    yield use
    find_compiler.cache_clear()


def test_a_client_with_another_compiler_gets_what_that_one_compiles(
    kernels: Kernels, use_another_compiler: Callable[[], None]
) -> None:
    text = kernels.quick.read_text()
    kernels.quick.write_text(text.replace("y[i] = 2 * x[i];", "y[i] = 2 * x[i];\n#ifdef WRONG\ny[0] = 0;\n#endif\n"))
    assert ask(kernels.quick).verdict == "ok"
    serving = broker_pid()
    use_another_compiler()
    assert ask(kernels.quick).verdict == "incorrect"
    with Store.open() as store:
        names = [kernels_of_store.resolve(store, one.kernel_id).toolchain for one in measurements.find(store)]
    assert "gcc 99.1.0" in names
    assert len(set(names)) == 2
    assert broker_pid() not in (None, serving)


def test_a_request_waits_for_the_broker_that_its_client_has_yet_to_start(
    kernels: Kernels, use_another_compiler: Callable[[], None]
) -> None:
    """The broker that serves looks into the queue by itself, too: it could be faster than the client that retires it,
    and has not the compiler.
    """
    assert ask(kernels.quick).verdict == "ok"
    serving = broker_pid()
    use_another_compiler()
    with Store.open() as store:
        begun = begin(store, str(kernels.quick), client=processes_alive.owner_name("cli"), baseline="none")
        time.sleep(2.5)  # its looks are a second apart
        assert [one.state for one in requests.unfinished(store)] == ["queued"]
        assert wait(store, begun.request, wait_s=60.0, on_progress=lambda text: None).state == "completed"
    assert broker_pid() not in (None, serving)


def test_a_compiler_that_is_not_here_compiles_nothing(kernels: Kernels, tmp_path: Path) -> None:
    answer = ask(kernels.quick)
    with Store.open() as store:
        loaded = kernels_of_store.resolve(store, str(answer.kernel_id))
    fields = loaded.model_dump(exclude={"id", "source_id", "toolchain"})
    named = Kernel.make(**fields | {"launches": loaded.launches, "scratch": loaded.scratch}, toolchain="gcc 99.1.0")
    with pytest.raises(DeviceError, match=r"a compiler that is not here: gcc 99.1.0; here is"):
        CpuLane(tmp_path).compile(named, signatures(named.source, "c", {}))


def test_a_fault_is_answered_where_the_log_is_full(kernels: Kernels) -> None:
    broken = """
import sys
from kforecast.bench.broker import begin
from kforecast.bench.broker.service import Service
def run(self, request):
    raise RuntimeError("a fault")
Service.run = run
sys.exit(begin.main("cpu"))
"""
    with Path("/dev/full").open("w") as full, subprocess.Popen([sys.executable, "-c", broken], stderr=full) as broker:
        until(lambda: broker_pid() == broker.pid, what="it serves")
        with pytest.raises(DeviceError, match="a fault in kforecast ended this measurement: RuntimeError: a fault"):
            ask(kernels.quick)
        broker.terminate()


def test_names_of_processes() -> None:
    mine = processes_alive.owner_name("cli")
    assert processes_alive.is_alive(mine)
    assert not processes_alive.is_gone(mine)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        same_number = f"cli:{other.pid}:1"
        assert processes_alive.is_gone(same_number)
        other.communicate(b"\n")
    for name in ("mcp", "search:7", "a:b:c", ""):
        assert not processes_alive.is_alive(name)
        assert not processes_alive.is_gone(name)
