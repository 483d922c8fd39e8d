"""The queue: nothing is lost, nothing is answered twice, and everybody gets a turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kforecast.store import measurements, requests
from kforecast.store.database import Store
from kforecast.store.errors import DeviceError, InputError, StoreError
from kforecast.store.models import Kernel, Measurement, Request

MakeMeasurement = Callable[..., Measurement]


def ask(store: Store, client: str = "cli:1", device: str = "cpu", **changes: Any) -> Request:
    return requests.enqueue(store, device=device, payload={"kernel_id": "k_1"}, client=client, **changes)


def begin_next(store: Store, device: str = "cpu", owner: str = "broker-1") -> Request | None:
    """Begin the first of the queue, as a broker of one hand does."""
    rows = requests.queue(store, device, limit=1)
    return requests.claim(store, rows[0].id, owner) if rows else None


def claimed(store: Store, device: str = "cpu", owner: str = "broker-1") -> Request:
    request = begin_next(store, device, owner)
    assert request is not None
    return request


def test_a_request_is_queued_worked_on_and_answered(
    store: Store, saved: list[Kernel], make_measurement: MakeMeasurement
) -> None:
    asked = ask(store)
    assert (asked.state, asked.attempts, asked.owner, asked.started_at) == ("queued", 0, None, None)
    working = claimed(store)
    assert (working.id, working.state, working.attempts, working.owner) == (asked.id, "working", 1, "broker-1")
    assert working.started_at is not None
    assert requests.set_progress(store, asked.id, "broker-1", "timing 3 of 8 blocks")
    current = requests.get(store, asked.id)
    assert current is not None
    assert current.progress == "timing 3 of 8 blocks"
    answer = make_measurement(request_id=asked.id)
    assert requests.complete(store, asked.id, "broker-1", answer)
    done = requests.get(store, asked.id)
    assert done is not None
    assert (done.state, done.result_id, done.owner, done.progress) == ("completed", answer.id, None, "")
    assert done.finished_at is not None
    assert measurements.get(store, answer.id) == answer
    assert begin_next(store, "cpu") is None


def test_clients_take_turns_and_each_is_served_in_order(store: Store) -> None:
    asked = {name: [ask(store, name).id for _ in range(3)] for name in ("a", "b", "c")}
    served = [claimed(store).id for _ in range(9)]
    assert served == [asked[name][turn] for turn in range(3) for name in ("a", "b", "c")]


def test_a_new_client_does_not_wait_behind_a_long_queue(store: Store) -> None:
    for _ in range(5):
        ask(store, "search")
    assert claimed(store).client == "search"
    late = ask(store, "agent")
    assert claimed(store).id == late.id


def test_a_request_can_be_begun_out_of_turn_but_only_once(store: Store) -> None:
    first, second = ask(store, "a"), ask(store, "b")
    begun = requests.claim(store, second.id, "inline-1")
    assert begun is not None
    assert (begun.id, begun.state, begun.owner, begun.attempts) == (second.id, "working", "inline-1", 1)
    assert requests.claim(store, second.id, "broker-1") is None
    ask(store, "b")
    assert claimed(store).id == first.id, "client b had its turn"
    with pytest.raises(InputError, match="r_none"):
        requests.claim(store, "r_none", "broker-1")


def test_devices_have_queues_of_their_own(store: Store) -> None:
    ask(store, device="cpu")
    assert begin_next(store, "cuda:0") is None
    assert claimed(store, "cpu").device == "cpu"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.sampled_from("abc"), st.just("claim")), max_size=24))
def test_position_is_the_number_of_claims_before_a_request(store: Store, script: list[str]) -> None:
    for row in requests.unfinished(store):
        requests.cancel(store, row.id)
    for step in script:
        if step == "claim":
            begin_next(store, "cpu")
        else:
            ask(store, step)
    expected = {one.id: requests.position(store, one.id) for one in requests.unfinished(store) if one.state == "queued"}
    order = [one.id for one in requests.queue(store, "cpu", limit=100)]
    assert [one.id for one in requests.queue(store, "cpu", limit=3)] == order[:3]
    served: list[str] = []
    while (request := begin_next(store, "cpu")) is not None:
        served.append(request.id)
    assert expected == {id_: place for place, id_ in enumerate(served)}
    assert order == served


def test_only_what_waits_has_a_position(store: Store) -> None:
    request = ask(store)
    assert requests.position(store, request.id) == 0
    claimed(store)
    assert requests.position(store, request.id) is None


def test_the_same_key_asks_once(store: Store) -> None:
    first = ask(store, request_key="abc")
    claimed(store)
    again = ask(store, client="another", request_key="abc")
    assert again.id == first.id
    assert again.state == "working"
    assert len(requests.recent(store)) == 1
    assert ask(store, request_key="abd").id != first.id


def test_a_key_used_for_something_else_is_refused(store: Store) -> None:
    ask(store, request_key="abc")
    with pytest.raises(InputError, match="another request"):
        ask(store, device="cuda:0", request_key="abc")
    with pytest.raises(InputError, match="another request"):
        requests.enqueue(store, device="cpu", payload={"kernel_id": "k_2"}, client="c", request_key="abc")


@pytest.mark.parametrize("payload", [{"a": object()}, {"a": float("nan")}, {"a": "\ud800"}])
def test_a_payload_that_is_no_json_is_refused(store: Store, payload: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="plain JSON"):
        requests.enqueue(store, device="cpu", payload=payload, client="c")
    assert requests.recent(store) == []


def test_a_cancelled_request_takes_no_answer(
    store: Store, saved: list[Kernel], make_measurement: MakeMeasurement
) -> None:
    request = ask(store)
    claimed(store)
    assert requests.cancel(store, request.id).state == "cancelled"
    assert requests.cancel(store, request.id).state == "cancelled"
    assert not requests.set_progress(store, request.id, "broker-1", "still here")
    assert not requests.complete(store, request.id, "broker-1", make_measurement(request_id=request.id))
    assert measurements.find(store) == []


def test_cancelling_what_is_done_changes_nothing(
    store: Store, saved: list[Kernel], make_measurement: MakeMeasurement
) -> None:
    request = ask(store)
    claimed(store)
    answer = make_measurement(request_id=request.id)
    assert requests.complete(store, request.id, "broker-1", answer)
    assert requests.cancel(store, request.id).state == "completed"
    assert requests.complete(store, request.id, "broker-1", answer), "repeating a completion that took"
    assert not requests.complete(store, request.id, "broker-1", make_measurement(request_id=request.id))
    assert len(measurements.find(store)) == 1
    assert not requests.fail(store, request.id, {"what": "too late"})


def test_an_owner_taken_for_dead_cannot_answer_any_more(
    store: Store, saved: list[Kernel], make_measurement: MakeMeasurement
) -> None:
    request = ask(store)
    claimed(store, owner="old")
    assert [one.state for one in requests.requeue_lost(store, "cpu", lambda owner: owner != "old")] == ["queued"]
    assert not requests.complete(store, request.id, "old", make_measurement(request_id=request.id))
    assert claimed(store, owner="new").attempts == 2
    assert not requests.complete(store, request.id, "old", make_measurement(request_id=request.id))
    assert not requests.fail(store, request.id, {"what": "x"}, owner="old")
    assert requests.complete(store, request.id, "new", make_measurement(request_id=request.id))


def test_what_living_owners_hold_is_left_alone(store: Store) -> None:
    mine, other = ask(store), ask(store, device="cuda:0")
    claimed(store)
    claimed(store, "cuda:0", "broker-2")
    assert requests.requeue_lost(store, "cpu", lambda owner: True) == []
    assert requests.requeue_lost(store, "cpu", lambda owner: False)[0].id == mine.id
    untouched = requests.get(store, other.id)
    assert untouched is not None
    assert untouched.state == "working"


def test_a_request_that_loses_its_owner_three_times_fails(store: Store) -> None:
    request = ask(store)
    states = []
    for _ in range(3):
        claimed(store)
        states += [one.state for one in requests.requeue_lost(store, "cpu", lambda owner: False)]
    assert states == ["queued", "queued", "failed"]
    failed = requests.get(store, request.id)
    assert failed is not None
    assert failed.error is not None
    assert failed.error["error"] == "DeviceError"
    assert "3 times" in failed.error["what"]
    assert begin_next(store, "cpu") is None


def test_a_failure_is_kept_as_data(store: Store) -> None:
    request = ask(store)
    error = DeviceError("There is no compiler", value="gcc", next_step="Install gcc.").as_dict()
    assert requests.fail(store, request.id, error)
    failed = requests.get(store, request.id)
    assert failed is not None
    assert (failed.state, failed.error) == ("failed", error)
    assert not requests.fail(store, request.id, error)


def test_an_answer_that_cannot_be_saved_leaves_the_request_as_it_was(
    store: Store, saved: list[Kernel], make_measurement: MakeMeasurement
) -> None:
    request = ask(store)
    claimed(store)
    with pytest.raises(StoreError, match="refused a row"):
        requests.complete(store, request.id, "broker-1", make_measurement(request_id=request.id, kernel_id="k_none"))
    still = requests.get(store, request.id)
    assert still is not None
    assert still.state == "working"
    with pytest.raises(InputError, match="answers another request"):
        requests.complete(store, request.id, "broker-1", make_measurement(request_id="r_other"))


def test_an_unknown_id_is_named(store: Store) -> None:
    assert requests.get(store, "r_none") is None
    for act in (requests.cancel, requests.position):
        with pytest.raises(InputError, match="r_none"):
            act(store, "r_none")
    with pytest.raises(InputError, match="r_none"):
        requests.set_progress(store, "r_none", "broker-1", "x")


def test_lists_are_in_order(store: Store) -> None:
    ids = [ask(store, client).id for client in "aabb"]
    working = claimed(store)
    assert [one.id for one in requests.recent(store, 3)] == ids[:0:-1]
    assert [one.id for one in requests.unfinished(store, device="cpu")] == [working.id, *ids[1:]]
    assert requests.recent(store, device="cuda:0") == []
