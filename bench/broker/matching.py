"""Which of the requests that wait gets a hand that is free.

A hand keeps the contents of the tasks that it measured last on the device, with their answers, and has their baselines
loaded. So of a client's requests it gets one of these tasks before older ones of others, whose hands will be free soon;
thus each hand comes to serve some of the tasks, and the device's memory holds the contents of most of them once instead
of once a hand. Clients have their turns as without it. No hand stays idle while a request waits that it could measure,
and none is passed over for long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .needs import Needs

TASKS = 8
"""Of a hand, those that it measured last: what takes 17 GB for 19 built-in tasks has room so often on a GPU."""
MOST_PASSED = 8
"""How many younger requests of its client may go before one that waits."""

H = TypeVar("H", bound=Hashable)


@dataclass(eq=False)
class Waiting:
    """A request that waits for a hand. ready: a hand would not have to wait until it is compiled. passed: how many
    younger ones of its client have got a hand that it could have had.
    """

    id: str
    client: str
    needs: Needs
    ready: bool = True
    passed: int = 0


class Matching(Generic[H]):
    """Remembers what hands measured. first: the hand that alone measures hosted requests; it gets others only where no
    other hand is free.
    """

    def __init__(self, first: H) -> None:
        self._first = first
        self._tasks: dict[H, deque[str]] = {}

    def next(self, waiting: Sequence[Waiting], idle: Sequence[H]) -> tuple[Waiting, H] | None:
        """Who is served next, and by which hand; None where nobody can be.

        waiting: in the order of their turns, of one client's the oldest first. idle: of hands that are as good as each
        other, the last is taken.
        """
        able = [one for one in waiting if self._fit(one, idle)]
        if not able:
            return None
        own = [one for one in able if one.client == able[0].client]
        return self._of_one_client([one for one in own if one.ready or one.passed >= MOST_PASSED] or own, idle)

    def _of_one_client(self, waiting: Sequence[Waiting], idle: Sequence[H]) -> tuple[Waiting, H]:
        others = {task for hand, tasks in self._tasks.items() if hand != self._first for task in tasks}
        for one in waiting:
            fit = self._fit(one, idle)
            knowing = [hand for hand in fit if one.needs.task_id in self._tasks.get(hand, ())]
            if knowing:
                return one, knowing[-1]
            if one.passed >= MOST_PASSED or one.needs.hosted or one.needs.task_id not in others:
                return one, self._least_used(fit)  # no other hand is worth waiting for
        return waiting[0], self._least_used(self._fit(waiting[0], idle))

    def given(self, one: Waiting, hand: H, waiting: Sequence[Waiting], idle: Sequence[H]) -> None:
        """`one` has got this hand; waiting, idle: as `next` was told."""
        tasks = self._tasks.setdefault(hand, deque(maxlen=TASKS))
        if one.needs.task_id in tasks:
            tasks.remove(one.needs.task_id)
        tasks.append(one.needs.task_id)
        for older in waiting[: waiting.index(one)]:
            older.passed += older.client == one.client and bool(self._fit(older, idle))

    def forget(self, hand: H) -> None:
        """The hand has ended."""
        self._tasks.pop(hand, None)

    def _fit(self, one: Waiting, idle: Sequence[H]) -> Sequence[H]:
        if one.needs.hosted:
            return [hand for hand in idle if hand == self._first]
        return [hand for hand in idle if hand != self._first] or idle

    def _least_used(self, hands: Sequence[H]) -> H:
        """Of those that know the fewest tasks, the last."""
        return min(reversed(hands), key=lambda hand: len(self._tasks.get(hand, ())))
