"""Outputs from a GPU that arrive later than copying them explains: the work was not done when the answer came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kforecast.bench.faults import KernelFault
from kforecast.bench.hosted.forms import KnownCase
from kforecast.bench.hosted.taking import Areas, Taking
from kforecast.bench.hosted.wire import Returned, TensorForm
from kforecast.store.models import Case

FORM = TensorForm("float32", (4,), (1,))
COPY_NS, LATE_NS = 50_000, 20_000_000


class Process:
    """Copies outputs in as many nanoseconds as it is told."""

    def __init__(self) -> None:
        self.took = COPY_NS

    def fetch(self, deadline_s: float, *, inputs: bool = False) -> int:
        return self.took


@pytest.fixture
def case() -> KnownCase:
    known = KnownCase(Case(sizes={}), 0, {"bytes": [16, 0]}, [FORM], [None], [0], 256)
    known.fetch_ns = COPY_NS
    return known


@pytest.fixture
def areas(case: KnownCase) -> Iterator[Areas]:
    made = Areas.for_cases([case], 0, gpu=True)
    yield made
    made.close()


def take(areas: Areas, case: KnownCase, took: list[int], *, late: bool = True) -> None:
    taking = Taking(areas, np.random.default_rng(1), gpu=True, late=late, deadline_s=1.0)
    returned = Returned({"tensor": 0}, (FORM,), ("Tensor",), ("cuda:0",), (0,))
    process: Any = Process()
    for process.took in took:
        taking.take(process, "candidate", case, returned, 1000, ([], b""))


def test_three_late_calls_are_enough(areas: Areas, case: KnownCase) -> None:
    with pytest.raises(KernelFault, match="answered before it was done") as fault:
        take(areas, case, [LATE_NS] * 3)
    assert fault.value.verdict == "tampered"


def test_two_are_not_and_one_in_time_clears_the_last_five(areas: Areas, case: KnownCase) -> None:
    take(areas, case, [LATE_NS, LATE_NS, COPY_NS, LATE_NS, LATE_NS, LATE_NS, LATE_NS])
    with pytest.raises(KernelFault):
        take(areas, case, [LATE_NS])


def test_switched_off_nobody_is_late(areas: Areas, case: KnownCase) -> None:
    take(areas, case, [LATE_NS] * 9, late=False)
