"""Several hands of one broker: who gets which request, what a hand's death costs, and that none is left."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from brokers import Kernels, answer_of, ask, begun, broker_pid, free, held, pid_of, start_client, until

from kforecast.bench.broker import processes_alive
from kforecast.bench.broker.client import cancel
from kforecast.bench.broker.hands import Hands
from kforecast.bench.broker.shares import hands_for, sharers_of
from kforecast.store import measurements, requests
from kforecast.store.database import Store
from kforecast.store.errors import DeviceError, InputError
from kforecast.store.models import Request


@pytest.fixture
def two_hands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORECAST_HANDS", "2")


def children(pid: int, module: str = "kforecast.bench.broker.hand") -> list[int]:
    """The hands that a broker has started."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            words = (place / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if parent == pid and module.encode() in words:
            found.append(int(place.name))
    return found


def second_hand() -> int:
    """The broker's second hand, once it is there."""
    pid = broker_pid()
    assert pid is not None
    (hand,) = until(lambda: children(pid), what="a second hand is started")
    return int(hand)


def working(store: Store, count: int, progress: str = "") -> list[Request]:
    """The requests in hand, once there are so many at steps that begin with `progress`."""

    def found() -> list[Request] | None:
        rows = [one for one in requests.unfinished(store) if one.state == "working"]
        return rows if sum(one.progress.startswith(progress) for one in rows) >= count else None

    rows: list[Request] = until(found, what=f"{count} requests are worked on")
    return rows


@pytest.mark.usefixtures("two_hands")
def test_one_request_after_the_other_needs_one_hand(kernels: Kernels) -> None:
    for _ in range(2):
        assert ask(kernels.quick).verdict == "ok"
    pid = broker_pid()
    assert pid is not None
    assert children(pid) == []


@pytest.mark.usefixtures("two_hands")
def test_a_request_that_waits_gets_a_second_hand_and_each_gets_its_own_answer(kernels: Kernels) -> None:
    with Store.open() as store:
        first = ask(kernels.endless, wait_s=0, store=store)
        begun("checking")
        heard: list[str] = []
        client = start_client(kernels.slow)  # waits for the device, which a host-code lane has to itself
        rows = working(store, 1, "waiting for the device")
        assert len(rows) == 2
        assert {pid_of(one.owner) for one in rows} == {broker_pid()}
        second_hand()
        cancel(store, next(one for one in rows if one.id == first.request_id))
        answer = answer_of(client)
        assert answer["verdict"] == "ok"
        assert ask(kernels.slow, store=store, on_progress=heard.append).verdict == "ok"
        assert any(text.startswith("timing block") for text in heard)
        found = measurements.get(store, answer["measurement_id"])
    assert found is not None
    assert "turns" not in found.environment


@pytest.mark.usefixtures("two_hands")
def test_many_requests_lose_none(kernels: Kernels) -> None:
    with Store.open() as store:
        for number in range(6):
            ask(kernels.quick, wait_s=0, client=f"c{number % 3}", store=store)
        until(lambda: not requests.unfinished(store), what="the queue is empty")
        rows = requests.recent(store)
    assert [(one.state, one.attempts) for one in rows] == [("completed", 1)] * 6
    assert len({one.result_id for one in rows}) == 6


@pytest.mark.usefixtures("two_hands")
def test_what_the_second_hand_does_can_be_cancelled(kernels: Kernels) -> None:
    with Store.open() as store:
        ask(kernels.endless, wait_s=0, store=store)
        occupying = begun("checking")
        ask(kernels.endless, wait_s=0, store=store)
        second_hand()
        waits = next(one for one in working(store, 1, "waiting for the device") if one.id != occupying.id)
        cancel(store, waits)  # while the second hand waits for the device
        ask(kernels.endless, wait_s=0, store=store)
        other = next(one for one in working(store, 1, "waiting for the device") if one.id != occupying.id)
        cancel(store, occupying)
        until(lambda: working(store, 1, "checking")[0].id == other.id, what="the second hand measures")
        assert held()["pid"] == broker_pid()
        cancel(store, other)  # while it measures
        free()
        assert [one.state for one in requests.recent(store)] == ["cancelled"] * 3
        assert ask(kernels.quick, store=store).verdict == "ok"


@pytest.mark.usefixtures("two_hands")
def test_a_killed_hand_fails_its_request_alone_and_is_replaced(kernels: Kernels) -> None:
    with Store.open() as store:
        ask(kernels.endless, wait_s=0, store=store)
        occupying = begun("checking")
        killed = ask(kernels.slow, wait_s=0, store=store)
        hand = second_hand()
        working(store, 1, "waiting for the device")
        os.kill(hand, signal.SIGKILL)
        row = until(lambda: _ended(store, killed.request_id), what="the dead hand's request has ended")
        assert row.state == "failed"
        assert row.error["error"] == "DeviceError"
        assert f"pid {hand}" in row.error["value"]
        ask(kernels.slow, wait_s=0, store=store)
        assert second_hand() != hand
        cancel(store, occupying)
        until(lambda: not requests.unfinished(store), what="the queue is empty")
        assert [one.state for one in requests.recent(store)] == ["completed", "failed", "cancelled"]


def _ended(store: Store, request_id: str | None) -> Request | None:
    assert request_id is not None
    row = requests.get(store, request_id)
    return row if row is not None and row.state in ("completed", "failed", "cancelled") else None


@pytest.mark.usefixtures("two_hands")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_when_the_broker_ends_so_do_its_hands_and_its_requests_go_on(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with Store.open() as store:
        ask(kernels.slow, wait_s=0, store=store)
        first = pid_of(begun("timing").owner)
        ask(kernels.slow, wait_s=0, store=store)
        hand = second_hand()
        working(store, 2)
        os.kill(first, number)
        until(lambda: not Path(f"/proc/{hand}").exists(), what="the hand has ended with its broker")
        assert ask(kernels.quick, store=store).verdict == "ok"
        until(lambda: not requests.unfinished(store), what="the queue is empty")
        assert [one.state for one in requests.recent(store)] == ["completed"] * 3
    assert broker_pid() != first
    (only,) = temporary.glob("kforecast-broker-*")
    assert f"-{broker_pid()}-" in only.name


def test_hands_for_a_script(kernels: Kernels) -> None:
    """The pool as a program uses it: all hands ready before it begins, a thread for each request in hand."""
    with Store.open() as store:
        name = ask(kernels.quick, use_broker=False, store=store).kernel_id
        owner = processes_alive.owner_name("script")
        hands = Hands(store, "cpu", owner, 2)
        hands.get_ready()
        assert len(hands.others) == 2
        assert sorted(children(os.getpid())) == sorted(hand.pid for hand in hands.others)
        payload = {"kernel_id": name, "baseline_id": None, "effort": "quick"}
        asked = [requests.enqueue(store, device="cpu", payload=payload, client="script") for _ in range(4)]

        def work() -> None:
            while (found := hands.next()) is not None:
                hands.work_off(*found)

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(work) for _ in range(2)]:
                done.result()
        hands.close()
        assert [hand.exit_code for hand in hands.others] == [0, 0], "they have ended what they started"
        found = [requests.get(store, one.id) for one in asked]
        assert [one.state for one in found if one is not None] == ["completed"] * 4


def test_a_hand_that_died_while_it_was_idle_costs_nobody_his_request(kernels: Kernels) -> None:
    with Store.open() as store:
        name = ask(kernels.quick, use_broker=False, store=store).kernel_id
        hands = Hands(store, "cpu", processes_alive.owner_name("script"), 2)
        hands.get_ready()
        for hand in hands.others:
            os.kill(hand.pid, signal.SIGKILL)
        until(lambda: not any(hand.alive for hand in hands.others), what="they have died")
        payload = {"kernel_id": name, "baseline_id": None, "effort": "quick"}
        asked = requests.enqueue(store, device="cpu", payload=payload, client="script")
        begun = hands.next()
        assert begun is not None
        hands.work_off(*begun)
        hands.close()
        ended = requests.get(store, asked.id)
    assert ended is not None
    assert ended.state == "completed"


def test_a_hand_that_does_not_start_costs_only_time(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its broker goes on with the hands that it has."""
    monkeypatch.setenv("KFORECAST_HANDS", "2")
    with Store.open() as store:
        ask(kernels.slow, wait_s=0, store=store)
        begun("timing")
        ask(kernels.quick, wait_s=0, store=store)
        os.kill(second_hand(), signal.SIGKILL)  # before it is ready, or soon after
        until(lambda: not requests.unfinished(store), what="the queue is empty")
        states = [one.state for one in requests.recent(store)]
    assert states[1] == "completed"
    assert states[0] in ("completed", "failed")


@pytest.mark.parametrize(
    ("variable", "device", "cores", "memory_gib", "hands"),
    [
        ("", "cpu", 64, 140, 1),
        ("", "cuda:1", 4, 140, 1),
        ("", "cuda:1", 8, 140, 2),
        ("", "cuda:1", 64, 140, 4),
        ("", "cuda:1", 16, 140, 4),
        ("", "cuda", 16, 40, 2),
        ("", "cuda:1", 16, 8, 1),
        ("", "cuda:1", 16, None, 1),
        ("2", "cpu", 1, None, 2),
        ("1", "cuda:1", 16, 140, 1),
    ],
)
def test_how_many_hands(
    monkeypatch: pytest.MonkeyPatch, variable: str, device: str, cores: int, memory_gib: int | None, hands: int
) -> None:
    def facts(ordinal: int) -> object:
        assert ordinal == (1 if device == "cuda:1" else 0)
        if memory_gib is None:
            raise DeviceError("no driver", next_step="Get one.")
        return SimpleNamespace(memory_bytes=memory_gib << 30)

    monkeypatch.setenv("KFORECAST_HANDS", variable)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr("kforecast.bench.devices.cuda.device.device_facts", facts)
    assert hands_for(device) == hands


def test_a_broker_with_several_hands_has_the_device_open_besides() -> None:
    assert [sharers_of(hands) for hands in (1, 2, 4)] == [1, 3, 5]


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_what_is_no_number_of_hands(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("KFORECAST_HANDS", text)
    with pytest.raises(InputError, match=text):
        hands_for("cpu")
