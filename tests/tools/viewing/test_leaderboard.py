"""Boards of kernels: places with ties, what is not ranked, and how a kernel is found on them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from grown import TASK, Grown, kernel
from hypothesis import given
from hypothesis import strategies as st

from kforecast.store import kernels, measurements
from kforecast.store.clock import utc_now
from kforecast.store.identity import new_id
from kforecast.store.models import Measurement
from kforecast.tools import quarantine
from kforecast.tools.viewing.leaderboard import KernelsAsk, KernelsReader, Standing, ranked, time_spread

ALL = KernelsAsk(None, 0, 100)


def measured(grown: Grown, number: int, time_us: float | None, **changes: Any) -> Measurement:
    one = kernel(number, tunables={"TILE": number})
    kernels.save(grown.store, one)
    found = Measurement(
        **{
            "id": new_id("m"), "kernel_id": one.id, "task_id": TASK.id, "task_name": TASK.name, "device": "cpu",
            "device_id": "cpu-1", "lane": "host-code", "launch_mode": "process", "effort": "quick", "verdict": "ok",
            "reason": "", "time_us": time_us, "noise_pct": 1.0, "created_at": utc_now(), **changes,
        }
    )  # fmt: skip
    measurements.save(grown.store, found)
    return found


def places(standings: tuple[Standing, ...]) -> list[tuple[str, int | None, bool]]:
    return [(one.name, one.place, one.tied) for one in standings]


def test_the_fastest_first_and_overlapping_times_share_a_place(grown: Grown) -> None:
    for number, time_us in ((1, 12.0), (2, 10.0), (3, 10.1), (4, 20.0)):
        measured(grown, number, time_us)
    found = KernelsReader().look(grown.store, ALL)
    assert places(found.standings) == [("k2.c", 1, True), ("k3.c", 1, True), ("k1.c", 3, False), ("k4.c", 4, False)]
    assert found.board is not None and (found.board.task, found.board.kernels) == ("double", 4)


def test_only_the_newest_believed_reading_of_a_kernel_counts(grown: Grown) -> None:
    measured(grown, 1, 1.0, created_at="2026-01-01T00:00:00.000000Z")
    new = measured(grown, 1, 5.0)
    doubted = measured(grown, 1, 0.1, quarantine="too fast")
    found = KernelsReader().look(grown.store, ALL)
    assert [(one.id, one.readings) for one in found.standings] == [(new.id, 3)]
    assert next(one.id for one in found.history) in (new.id, doubted.id)
    with_others = KernelsReader().look(grown.store, replace(ALL, others=True))
    assert [(one.id, one.place) for one in with_others.standings] == [(new.id, 1), (doubted.id, None)]


def test_what_is_not_right_is_there_when_asked_for(grown: Grown) -> None:
    measured(grown, 1, 5.0)
    measured(grown, 2, None, verdict="incorrect")
    measured(grown, 3, 1.0, censored=True)
    found = KernelsReader().look(grown.store, replace(ALL, others=True))
    assert places(found.standings)[0] == ("k1.c", 1, False)
    assert {one.name: one.place for one in found.standings[1:]} == {"k2.c": None, "k3.c": None}
    assert [one.name for one in KernelsReader().look(grown.store, ALL).standings] == ["k1.c", "k3.c"]


def test_boards_do_not_mix_devices_or_launch_modes(grown: Grown) -> None:
    measured(grown, 1, 5.0)
    measured(grown, 1, 4.0, device="cuda:0", device_id="GPU-1", launch_mode="stream")
    measured(grown, 1, 3.0, device="cuda:0", device_id="GPU-1", launch_mode="graph")
    reader = KernelsReader()
    boards = reader.look(grown.store, ALL).boards
    assert {(one.device, one.launch_mode) for one in boards} == {
        ("cpu", "process"),
        ("cuda:0", "stream"),
        ("cuda:0", "graph"),
    }
    for board in boards:
        found = reader.look(grown.store, replace(ALL, board=board.key))
        assert found.board == board and found.total == 1


def test_a_kernel_is_found_whatever_its_board(grown: Grown) -> None:
    slow = measured(grown, 1, 50.0)
    wrong = measured(grown, 9, None, verdict="incorrect")
    for number in range(2, 8):
        measured(grown, number, float(number))
    measured(grown, 1, 1.0, device="cuda:0", device_id="GPU-1", created_at="2026-01-01T00:00:00.000000Z")
    found = KernelsReader().look(grown.store, KernelsAsk(None, 0, 3, kernel=slow.kernel_id))
    assert found.board is not None and found.board.device == "cpu"
    assert found.at is not None and found.standings[found.at - found.first].kernel_id == slow.kernel_id
    assert found.kernel is not None and found.kernel.id == slow.kernel_id
    lost = KernelsReader().look(grown.store, KernelsAsk(None, 0, 3, kernel=wrong.kernel_id))
    assert lost.kernel is not None and lost.kernel.id == wrong.kernel_id


@pytest.mark.parametrize(("like", "names"), [("k3", ["k3.c"]), ("TILE=4", ["k4.c"]), ("nothing", []), ("%", [])])
def test_a_filter_looks_at_names_and_tunables(grown: Grown, like: str, names: list[str]) -> None:
    for number in (3, 4):
        measured(grown, number, float(number))
    found = KernelsReader().look(grown.store, replace(ALL, like=like))
    assert [one.name for one in found.standings] == names


def test_a_reading_put_into_quarantine_is_no_longer_ranked(grown: Grown) -> None:
    found = measured(grown, 1, 5.0)
    quarantine.put(found.id, "odd", grown.path)
    assert KernelsReader().look(grown.store, ALL).total == 0


def test_an_empty_store_has_no_boards(grown: Grown) -> None:
    found = KernelsReader().look(grown.store, ALL)
    assert (found.boards, found.board, found.total, found.kernel) == ((), None, 0, None)


spans = st.tuples(st.floats(1, 100), st.floats(1, 1.3))


@given(st.lists(spans, max_size=20))
def test_places_follow_times_and_who_shares_one_overlaps_its_first(found: list[tuple[float, float]]) -> None:
    standings = [
        Standing(
            None, False, f"m{number:02}", f"k{number}", "k", "", "c", "ok", "none", time, time / wide, time * wide,
            None, None, None, None, "quick", (), None, "2026-01-01T00:00:00Z", 1,
        )
        for number, (time, wide) in enumerate(found)
    ]  # fmt: skip
    placed = ranked(standings)
    times = [one.time_us or 0.0 for one in placed]
    assert times == sorted(times)
    first: dict[int, Standing] = {}
    for number, one in enumerate(placed, start=1):
        assert one.place is not None and one.place <= number
        head = first.setdefault(one.place, one)
        assert one.place == placed.index(head) + 1
        assert (one.low_us or 0) <= (head.high_us or 0)
        assert one.tied == (sum(other.place == one.place for other in placed) > 1)
    heads = list(first.values())
    assert all((later.low_us or 0) > (head.high_us or 0) for head, later in pairwise(heads))


def test_a_times_spread_is_the_wider_of_noise_and_half_the_ratios_interval() -> None:
    assert time_spread(None, None, None) == 0.0
    assert time_spread(100.0, None, None) == 1.0
    assert time_spread(1.0, -0.5, 0.5) == 0.5
    assert time_spread(None, float("-inf"), 1.0) == 0.0
