"""Who gets which hand: a hand keeps to its tasks as far as that keeps nobody waiting."""

from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.broker.matching import MOST_PASSED, TASKS, Matching, Waiting
from kforecast.bench.broker.needs import Needs


def waits(*tasks: str, client: str = "c") -> list[Waiting]:
    return [Waiting(f"r_{number}", client, Needs(task)) for number, task in enumerate(tasks)]


def matched(matching: Matching[str], waiting: list[Waiting], idle: list[str]) -> tuple[str, str] | None:
    """The task that is served next, and the hand that does it: what waits and who is idle are shortened by them."""
    pair = matching.next(waiting, idle)
    if pair is None:
        return None
    one, hand = pair
    matching.given(one, hand, waiting, idle)
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
    hosted, other = Waiting("r_0", "c", Needs("t", hosted=True)), Waiting("r_1", "c", Needs("t"))
    matching: Matching[str] = Matching("first")
    assert matching.next([hosted, other], ["first", "a"]) == (hosted, "first")
    assert matching.next([hosted, other], ["a"]) == (other, "a")
    assert matching.next([other], ["first", "a"]) == (other, "a")
    assert matching.next([other], ["first"]) == (other, "first")
    assert matching.next([hosted], ["a", "b"]) is None
    assert matching.next([other], []) is None


def test_what_is_hosted_waits_for_no_other_hand() -> None:
    """Another hand knows its task, but could never measure it."""
    matching = taught(a="t")
    hosted = Waiting("r_0", "c", Needs("t", hosted=True))
    assert matching.next([hosted, *waits("t", "t")], ["first", "a"]) == (hosted, "first")


def test_what_only_the_first_hand_knows_waits_for_nobody() -> None:
    matching = taught(first="t", a="u")
    assert matched(matching, waits("t", "u"), ["a"]) == ("t", "a")


def test_clients_have_their_turns_whatever_a_hand_knows() -> None:
    matching = taught(a="t", b="u")
    first, second = waits("u", client="one"), waits("t", client="another")
    assert matched(matching, [*first, *second], ["a"]) == ("u", "a")


def test_what_is_being_compiled_waits_where_something_else_can_be_measured() -> None:
    matching = taught(a="t", b="u")
    waiting = waits("t", "u", "u")
    waiting[0].ready = waiting[2].ready = False
    assert matched(matching, waiting, ["a"]) == ("u", "a")
    assert matched(matching, waiting, ["a"]) == ("t", "a"), "nothing else is left: its hand waits"


def test_what_is_being_compiled_is_not_passed_for_long() -> None:
    waiting = waits("t", *["u"] * 20)
    waiting[0].ready = False
    matching = taught(a="u")
    served = [matched(matching, waiting, ["a"]) for _ in range(MOST_PASSED + 1)]
    assert served == [("u", "a")] * MOST_PASSED + [("t", "a")]


@given(
    st.lists(st.tuples(st.sampled_from("abcdefghijkl"), st.sampled_from("cd"), st.booleans()), max_size=120),
    st.integers(1, 4),
    st.integers(1, 12),
    st.randoms(use_true_random=False),
)
def test_every_request_is_served_and_nobody_is_passed_for_long(
    asked: list[tuple[str, str, bool]], hands: int, window: int, chance: random.Random
) -> None:
    """`window` requests wait at a time; `hands` are busy at most, and end in any order."""
    matching: Matching[int] = Matching(0)
    queue = deque(Waiting(str(n), client, Needs(task, hosted)) for n, (task, client, hosted) in enumerate(asked))
    waiting: list[Waiting] = []
    idle, busy = list(range(hands + 1)), 0
    served: list[Waiting] = []
    while queue or waiting:
        while queue and len(waiting) < window:
            waiting.append(queue.popleft())
        for one in waiting:
            one.ready = chance.random() < 0.7
        pair = matching.next(waiting, idle) if busy < hands else None
        if pair is None:
            assert busy, "hands are free and somebody waits"
            freed = chance.choice([hand for hand in range(hands + 1) if hand not in idle])
            idle.append(freed)
            busy -= 1
            continue
        matching.given(*pair, waiting, idle)
        waiting.remove(pair[0])
        idle.remove(pair[1])
        busy += 1
        served.append(pair[0])
        assert pair[1] == 0 or not pair[0].needs.hosted
        assert all(one.passed <= MOST_PASSED for one in waiting)
    assert len(served) == len(asked)


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
        matching.given(*pair, waiting, [pair[1]])
        waiting.remove(pair[0])
        served[pair[1]].append(pair[0].needs.task_id)
    assert fewest <= sum(len(set(tasks[-64:])) for tasks in served.values()) / 6 <= most
