"""A task that does not fit into memory is refused before anything is allocated, with the numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.devices.cpu.lane import CpuLane
from kforecast.bench.room import available_bytes, check_room
from kforecast.bench.tasks.builtin import builtin_names, builtin_task
from kforecast.store.errors import UnsupportedError
from kforecast.store.models import Case

GIB = 1 << 30


@given(st.integers(1, 20), st.integers(1, 3))
def test_need_is_counted_per_kept_content(exponent: int, sets: int) -> None:
    task = builtin_task("vector_add")
    case = Case(sizes={"N": 1 << exponent})
    # Two inputs of 4 bytes: each content and the arena. An output: the arena and a side. Three tensors as float64.
    need = (1 << exponent) * (8 * (sets + 1) + 4 * 2 + 8 * 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kforecast.bench.room.available_bytes", lambda: need)
        check_room(task, together=(case,), alone=(), sets=sets, sides=1)
        patch.setattr("kforecast.bench.room.available_bytes", lambda: need - 1)
        with pytest.raises(UnsupportedError, match=f"vector_add, N={1 << exponent}"):
            check_room(task, together=(case,), alone=(), sets=sets, sides=1)


def test_the_refusal_comes_with_the_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("kforecast.bench.room.available_bytes", lambda: 3 * GIB)
    task = builtin_task("vector_add").model_copy(update={"timed": {"cpu": (Case(sizes={"N": GIB}),)}})
    with pytest.raises(UnsupportedError, match=r"needs about 64\.0 GiB of memory, and 3\.0 GiB are free") as refused:
        CpuLane(tmp_path).session(task, call_deadline_s=1.0, cancelled=lambda: False)
    assert refused.value.exit_code == 5


def test_every_built_in_task_fits_into_a_small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_bytes() > 0
    monkeypatch.setattr("kforecast.bench.room.available_bytes", lambda: GIB)
    for name in builtin_names():
        task = builtin_task(name)
        check_room(task, together=task.timed_on("cpu"), alone=task.checked, sets=3, sides=2)
