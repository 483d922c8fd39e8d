"""Who gets which hand: a hand keeps to its tasks as far as that keeps nobody waiting."""

from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.broker.matching import MOST_PASSED, TASKS, Matching, Waiting
from kforecast.bench.broker.needs import Needs


def waits(*tasks: str) -> list[Waiting]:
    return [Waiting(Needs(task)) for task in tasks]


def matched(matching: Matching[str], waiting: list[Waiting], idle: list[str]) -> tuple[str, str] | None:
    """The task that is served next, and the hand that does it: what waits and who is idle are shortened by them."""
    pair = matching.next(waiting, idle)
    if pair is None:
        return None
    one, hand = pair
    matching.given(one, hand, waiting)
    waiting.remove(one)
    idle.remove(hand)
    return one.needs.task_id, hand


def taught(**tasks: str) -> Matching[str]:
    """Hands that have measured one task each."""
    matching = Matching("first")
    for hand, task in tasks.items():
        assert matched(matching, waits(task), [hand]) == (task, hand)
    return matching


def test_a_hand_gets_a_younger_request_of_its_own_task() -> None:
    matching = taught(a="softmax", b="gemm")
    waiting = waits("gemm", "softmax")
    assert matched(matching, waiting, ["a"]) == ("softmax", "a")
    assert matched(matching, waiting, ["b"]) == ("gemm", "b")


def test_of_two_idle_hands_the_one_that_knows_the_task_is_taken() -> None:
    for idle in (["a", "b"], ["b", "a"]):
        assert matched(taught(a="softmax", b="gemm"), waits("gemm"), idle) == ("gemm", "b")


def test_a_task_that_no_hand_knows_does_not_wait() -> None:
    matching = taught(a="softmax", b="gemm")
    assert matched(matching, waits("sort", "softmax"), ["a"]) == ("sort", "a")


def test_a_hand_that_knows_nobodys_task_serves_the_oldest() -> None:
    matching = taught(a="softmax", b="gemm")
    assert matched(matching, waits("gemm", "gemm"), ["a"]) == ("gemm", "a")


def test_nobody_is_passed_over_for_long() -> None:
    matching = taught(a="softmax", b="gemm")
    waiting = waits("gemm", *["softmax"] * (MOST_PASSED + 1))
    served = [matched(matching, waiting, ["a"]) for _ in range(MOST_PASSED + 1)]
    assert served == [("softmax", "a")] * MOST_PASSED + [("gemm", "a")]


def test_a_hand_remembers_its_last_tasks() -> None:
    matching = taught(a="t0", b="u")
    for number in range(1, TASKS + 1):
        matched(matching, waits(f"t{number}"), ["a"])
    matched(matching, waits("t0"), ["b"])
    assert matched(matching, waits("t0", "t1"), ["a"]) == ("t1", "a")
    matching.forget("a")
    assert matched(matching, waits("t2", "t3"), ["a"]) == ("t2", "a"), "another that has its name knows nothing"


def test_the_first_hand_is_for_what_is_hosted_and_for_want_of_others() -> None:
    hosted, other = Waiting(Needs("t", hosted=True)), Waiting(Needs("t"))
    matching: Matching[str] = Matching("first")
    assert matching.next([hosted, other], ["first", "a"]) == (hosted, "first")
    assert matching.next([hosted, other], ["a"]) == (other, "a")
    assert matching.next([other], ["first", "a"]) == (other, "a")
    assert matching.next([other], ["first"]) == (other, "first")
    assert matching.next([hosted], ["a", "b"]) is None
    assert matching.next([other], []) is None


@given(st.lists(st.sampled_from("abcdefghijkl"), max_size=150), st.integers(1, 5), st.integers(1, 12))
def test_every_request_is_served_and_in_order_within_its_task(tasks: list[str], hands: int, window: int) -> None:
    """`window` requests wait at a time; hands become free in turn."""
    matching: Matching[int] = Matching(0)
    queue, waiting = deque(enumerate(Waiting(Needs(task)) for task in tasks)), []
    numbers: dict[Waiting, int] = {}
    served: list[int] = []
    for turn in range(len(tasks)):
        while queue and len(waiting) < window:
            number, one = queue.popleft()
            numbers[one] = number
            waiting.append(one)
        pair = matching.next(waiting, [1 + turn % hands])
        assert pair is not None, "a hand is free and somebody waits"
        matching.given(*pair, waiting)
        waiting.remove(pair[0])
        served.append(numbers[pair[0]])
        assert all(one.passed <= MOST_PASSED for one in waiting)
    assert sorted(served) == list(range(len(tasks)))
    for task in set(tasks):
        of_task = [number for number in served if tasks[number] == task]
        assert of_task == sorted(of_task)


@pytest.mark.parametrize(("window", "fewest", "most"), [(1, 15, 19), (6, 0, 12)])
def test_hands_keep_to_some_of_the_tasks(window: int, fewest: int, most: int) -> None:
    """What it is for: six hands serve 19 tasks in random order. Each comes to all of them where one request waits at a
    time, and to half of them where as many wait as there are hands.
    """
    rng = random.Random(1)
    matching: Matching[int] = Matching(0)
    waiting: list[Waiting] = []
    served: dict[int, list[str]] = {hand: [] for hand in range(1, 7)}
    for _ in range(2000):
        while len(waiting) < window:
            waiting += waits(f"t{rng.randrange(19)}")
        pair = matching.next(waiting, [rng.randint(1, 6)])
        assert pair is not None
        matching.given(*pair, waiting)
        waiting.remove(pair[0])
        served[pair[1]].append(pair[0].needs.task_id)
    assert fewest <= sum(len(set(tasks[-64:])) for tasks in served.values()) / 6 <= most
