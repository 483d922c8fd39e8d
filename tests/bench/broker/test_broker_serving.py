"""One broker a store and device: who starts it, whom it serves in which order, and when it ends."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import pytest
from brokers import Kernels, answer_of, ask, begun, broker_pid, free, held, only_request, pid_of, start_client, until

from kforecast.app.main import run
from kforecast.bench.broker.client import cancel
from kforecast.bench.broker.lock import device_lock, holder
from kforecast.bench.broker.protocol import fingerprint, socket_path
from kforecast.bench.devices.cpu.machine import device_id
from kforecast.store import measurements, requests
from kforecast.store.database import Store
from kforecast.store.errors import DeviceError, InputError
from kforecast.store.models import Measurement
from kforecast.store.paths import store_path


def test_the_first_client_starts_a_broker_and_the_second_uses_it(kernels: Kernels) -> None:
    assert broker_pid() is None
    assert ask(kernels.quick).verdict == "ok"
    first = broker_pid()
    assert first is not None
    assert answer_of(start_client(kernels.quick))["verdict"] == "ok"
    assert broker_pid() == first


def test_clients_that_start_together_share_one_broker(kernels: Kernels) -> None:
    clients = [start_client(kernels.quick) for _ in range(3)]
    answers = [answer_of(client) for client in clients]
    assert [answer["verdict"] for answer in answers] == ["ok"] * 3
    assert len({answer["measurement_id"] for answer in answers}) == 3
    with Store.open() as store:
        assert {one.attempts for one in requests.recent(store)} == {1}


def test_clients_take_turns(kernels: Kernels) -> None:
    """Whoever asks for much does not keep out who asks for little; each client's own are done in the order of
    asking.
    """
    with Store.open() as store:
        ask(kernels.endless, wait_s=0, client="first", store=store)
        occupying = begun()
        for client, count in (("greedy", 3), ("modest", 1), ("patient", 2)):
            for _ in range(count):
                assert ask(kernels.quick, wait_s=0, client=client, store=store).state == "working"
        cancel(store, occupying)
        until(lambda: not requests.unfinished(store), what="the queue is empty")
        rows = store.read("SELECT client FROM requests WHERE state = 'completed' ORDER BY turn")
    assert [row["client"] for row in rows] == ["greedy", "modest", "patient", "greedy", "patient", "greedy"]


def test_a_client_hears_how_far_it_is(kernels: Kernels) -> None:
    heard: list[str] = []
    ask(kernels.slow, on_progress=heard.append)
    assert any(text.startswith("checking case 1 of 1") for text in heard)
    assert any(text.startswith("timing block 8") for text in heard)


def test_a_short_wait_answers_working_and_the_answer_comes_later(kernels: Kernels) -> None:
    first = ask(kernels.slow, wait_s=0.01, request_key="mine")
    assert (first.state, first.measurement_id) == ("working", None)
    second = ask(kernels.slow, wait_s=60, request_key="mine")
    assert (second.state, second.verdict) == ("completed", "ok")
    assert only_request().result_id == second.measurement_id


def test_a_request_key_asked_twice_is_one_measurement(kernels: Kernels) -> None:
    first, second = (ask(kernels.quick, request_key="once") for _ in range(2))
    assert first.measurement_id == second.measurement_id
    assert only_request().attempts == 1
    with pytest.raises(InputError, match="once"):
        ask(kernels.slow, request_key="once")


def test_an_ended_request_is_answered_without_a_broker(kernels: Kernels) -> None:
    first = ask(kernels.quick, request_key="done", use_broker=False)
    second = ask(kernels.quick, request_key="done")
    assert first.measurement_id == second.measurement_id
    assert broker_pid() is None


def test_without_a_broker_the_row_is_the_same(kernels: Kernels) -> None:
    with Store.open() as store:
        here = ask(kernels.quick, use_broker=False, store=store)
        assert broker_pid() is None
        there = ask(kernels.quick, store=store)
        rows = [measurements.get(store, str(answer.measurement_id)) for answer in (here, there)]
    assert _what_does_not_vary(rows[0]) == _what_does_not_vary(rows[1])


def _what_does_not_vary(row: Measurement | None) -> dict[str, object]:
    assert row is not None
    same = "kernel_id baseline_id task_id task_name device device_id lane launch_mode effort verdict reason comparison"
    found = row.model_dump(include={*same.split(), "blocks", "mismatch", "isolation", "facts"})
    assert row.facts is not None
    found["facts"] = row.facts.model_dump(exclude={"compile_ms"})
    return found


def test_a_broker_of_before_a_package_was_installed_is_of_another_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / name))
    (tmp_path / "purelib").mkdir()
    before = fingerprint()
    assert fingerprint() == before
    os.utime(tmp_path / "purelib", ns=(1, 1))  # as a new folder in it does, but surely at another time
    assert fingerprint() != before


def test_status_shows_who_holds_the_device(kernels: Kernels, capsys: pytest.CaptureFixture[str]) -> None:
    client = start_client(kernels.endless)
    request = begun()
    assert held()["pid"] == pid_of(request.owner)
    assert run(["status", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    (seen,) = shown["holders"]
    assert (seen["device"], seen["pid"]) == ("cpu", broker_pid())
    assert request.id in seen["purpose"]
    assert [line["request_id"] for line in shown["unfinished"]] == [request.id]
    with Store.open() as store:
        cancel(store, request)
    assert answer_of(client, code=4)["state"] == "cancelled"
    free()


def test_two_stores_share_one_device(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = start_client(kernels.endless)
    request = begun()
    holds = held()
    with monkeypatch.context() as other:
        other.setenv("KFORECAST_DB", str(tmp_path / "other.db"))
        second = start_client(kernels.quick)
        assert pid_of(begun("waiting for the device").owner) != holds["pid"]
        assert held() == holds
    with Store.open() as store:
        cancel(store, request)
    assert answer_of(second)["verdict"] == "ok"
    assert answer_of(first, code=4)["state"] == "cancelled"


def test_the_device_is_waited_for_and_the_wait_is_bounded() -> None:
    with device_lock("cpu-test", device="cpu", purpose="a test's"):
        outcome: list[object] = []

        def second() -> None:
            try:
                with device_lock("cpu-test", device="cpu", purpose="too late", wait_s=0.05):
                    outcome.append("held twice")
            except DeviceError as error:
                outcome.append(error)

        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        (error,) = outcome
        assert isinstance(error, DeviceError)
        assert "a test's" in str(error)
    assert holder("cpu-test") is None


def test_a_broker_ends_when_idle_and_takes_its_files_along(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KFORECAST_BROKER_IDLE_S", "0.2")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    assert answer_of(start_client(kernels.quick))["verdict"] == "ok"
    until(lambda: not socket_path("cpu", store_path()).exists(), what="the socket is removed")
    until(lambda: not list((tmp_path / "temporary").iterdir()), what="its temporary files are gone")
    assert broker_pid() is None


def test_a_runtime_directory_too_long_for_a_socket_address(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    long = tmp_path / ("x" * 120) / "run"
    monkeypatch.setenv("KFORECAST_RUNTIME_DIR", str(long))
    assert ask(kernels.quick).verdict == "ok"
    assert socket_path("cpu", store_path()).parent == long
    assert broker_pid() is not None


def test_a_socket_that_a_dead_broker_left(kernels: Kernels) -> None:
    path = socket_path("cpu", store_path())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))
    assert path.exists()
    assert ask(kernels.quick).verdict == "ok"


def test_temporary_and_runtime_places_do_not_depend_on_each_other(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without any variable the runtime directory lies in the temporary one, where the broker makes its own folder
    too.
    """
    monkeypatch.delenv("KFORECAST_RUNTIME_DIR")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    client = start_client(kernels.endless)
    request = begun()
    assert held()["pid"] == broker_pid() == pid_of(request.owner)
    assert holder(device_id()) is not None
    with Store.open() as store:
        cancel(store, request)
    answer_of(client, code=4)
