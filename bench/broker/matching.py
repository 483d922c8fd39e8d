"""Which of the requests that wait gets a hand that is free.

A hand keeps the contents of the tasks that it measured last on the device, with their answers, and has their baselines
loaded. So it gets a request of one of these before older ones of other tasks, whose hands will be free soon; thus each
hand comes to serve some of the tasks, and the device's memory holds the contents of most of them once instead of once a
hand. No hand stays idle while a request waits that it could measure, and none is passed over for long.
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
"""How many younger requests may go before one that waits."""

H = TypeVar("H", bound=Hashable)


@dataclass(eq=False)
class Waiting:
    """A request that waits for a hand; `passed`: how many younger ones have got one that it could have had."""

    needs: Needs
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

        waiting: oldest first. idle: of hands that are as good as each other, the last is taken.
        """
        pairs = [(one, fit) for one in waiting if (fit := self._fit(one, idle))]
        known = {task for tasks in self._tasks.values() for task in tasks}
        for one, fit in pairs:
            knowing = [hand for hand in fit if one.needs.task_id in self._tasks.get(hand, ())]
            if knowing:
                return one, knowing[-1]
            if one.passed >= MOST_PASSED or one.needs.task_id not in known:
                return one, self._least_used(fit)
        return (pairs[0][0], self._least_used(pairs[0][1])) if pairs else None

    def given(self, one: Waiting, hand: H, waiting: Sequence[Waiting]) -> None:
        """`one` of those that wait, oldest first, has got this hand."""
        tasks = self._tasks.setdefault(hand, deque(maxlen=TASKS))
        if one.needs.task_id in tasks:
            tasks.remove(one.needs.task_id)
        tasks.append(one.needs.task_id)
        for older in waiting[: waiting.index(one)]:
            older.passed += bool(self._fit(older, [hand]))

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
