"""Workers that die: whatever the instant, the search that others take up means what the undisturbed one means."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from landscape import Bed, Children, Landscape, oracle

from kforecast.store.database import Store
from kforecast.tools.search.budget import Budget
from kforecast.tools.search.events import Measured, projection
from kforecast.tools.search.log import folded, read_events

BUDGET = Budget(measurements=9)


class Killed(BaseException):
    """A worker's end without any chance to tidy up."""


def dying_at(instant: int) -> Callable[[str], None]:
    """A fault that strikes at the `instant`-th place where one may."""
    passed = 0

    def fault(place: str) -> None:
        nonlocal passed
        passed += 1
        if passed == instant:
            raise Killed(place)

    return fault


def made(path: Path, *, inline: bool = True, budget: Budget = BUDGET) -> Bed:
    bed = Bed(Store.open(path), Landscape())
    bed.forecaster = oracle()
    bed.forecaster.inline = inline
    bed.children = Children(bed.landscape, inline=inline)
    bed.begin(budget, audit_rate=0.3, measuring=3, speculate=3)
    return bed


def meant(bed: Bed) -> list[dict[str, Any]]:
    return projection(read_events(bed.store, bed.search_id), virtual=True)


def finish(bed: Bed, deaths: list[int]) -> int:
    """Work until the search has ended, dying at the given instants; how many deaths there were."""
    died = 0
    for instant in [*deaths, 0]:
        try:
            state = asyncio.run(bed.worker(fault=dying_at(instant)).run())
        except Killed:
            died += 1
            continue
        assert state.phase == "ended"
        assert folded(bed.store, bed.search_id) == state
        break
    return died


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, list[dict[str, Any]]]:
    found = {}
    for inline in (True, False):
        bed = made(tmp_path_factory.mktemp("undisturbed") / "a.db", inline=inline)
        finish(bed, [])
        found[inline] = meant(bed)
        bed.store.close()
    return found


def test_a_death_between_every_pair_of_events_changes_nothing(tmp_path: Path) -> None:
    """As many searches as there are instants, each with one death: before and after every single append."""
    budget = Budget(measurements=5)
    whole = made(tmp_path / "whole.db", budget=budget)
    assert finish(whole, []) == 0
    instants = 0
    while True:
        bed = made(tmp_path / f"{instants}.db", budget=budget)
        deaths = finish(bed, [instants + 1])
        assert meant(bed) == meant(whole)
        bed.store.close()
        if deaths == 0:
            break
        instants += 1
    assert instants > len(meant(whole)) / 2, "an append is of a few events at most"
    whole.store.close()


@pytest.mark.parametrize("steps", [5, 6, 7])  # fewer, and none would live to see its first measurement
def test_one_death_after_the_other_changes_nothing(
    tmp_path: Path, undisturbed: dict[bool, list[dict[str, Any]]], steps: int
) -> None:
    bed = made(tmp_path / "a.db")
    deaths = finish(bed, [steps] * 100)
    assert 20 < deaths < 100, "it was the dying workers that brought it to its end"
    assert meant(bed) == undisturbed[True]
    bed.store.close()


@pytest.mark.parametrize("seed", range(8))
def test_deaths_at_random_instants_change_nothing(
    tmp_path: Path, undisturbed: dict[bool, list[dict[str, Any]]], seed: int
) -> None:
    """8 searches of some 25 deaths each, at any instant: 200 in all. Every committed result stands once."""
    chance = random.Random(seed)
    inline = seed % 2 == 0
    bed = made(tmp_path / "a.db", inline=inline)
    deaths = finish(bed, [chance.randint(2, 9) for _ in range(25)])
    assert deaths > 5
    assert meant(bed) == undisturbed[inline]
    measured = [event for event in read_events(bed.store, bed.search_id) if isinstance(event, Measured)]
    assert len({(event.node, event.effort, event.purpose) for event in measured}) == len(measured)
    bed.store.close()


def test_real_delays_do_not_show_in_virtual_time(tmp_path: Path, undisturbed: dict[bool, list[dict[str, Any]]]) -> None:
    bed = made(tmp_path / "a.db")
    bed.landscape.delay = lambda path: 0.01 * (len(path) % 3)
    finish(bed, [])
    assert meant(bed) == undisturbed[True]
    bed.store.close()
