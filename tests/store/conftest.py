"""A store in a directory of the test's own, and nouns to put into it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kforecast.store import kernels, tasks
from kforecast.store.clock import utc_now
from kforecast.store.database import Store
from kforecast.store.identity import new_id
from kforecast.store.models import Case, Forecast, Kernel, Launch, Measurement, Task, Tensor

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fresh" / "kforecast.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path, timeout_s=5) as opened:
        yield opened


@pytest.fixture
def task() -> Task:
    return Task(
        name="vector_add",
        title="c = a + b",
        tensors=(
            Tensor(name="a", role="in", dtype="f32", shape=("N",)),
            Tensor(name="b", role="in", dtype="f32", shape=("N",)),
            Tensor(name="c", role="out", dtype="f32", shape=("N",)),
        ),
        reference="add",
        reference_source="def add(a, b):\n    return a + b\n",
        checked=(Case(sizes={"N": 7}),),
        timed={"any": (Case(sizes={"N": 4096}),)},
    )


@pytest.fixture
def make_kernel(task: Task) -> Callable[..., Kernel]:
    def make(number: int = 0, **changes: Any) -> Kernel:
        fields: dict[str, Any] = {
            "language": "c",
            "name": f"kernel {number}",
            "source": f'// é\nvoid f(void) {{ g({number}, "a  b"); }}\n',
            "launches": (Launch(entry="f", args=("a", "b", "c", "N")),),
            "task_id": task.id,
            "tunables": {"BLOCK": 64},
        }
        return Kernel.make(**{**fields, **changes})

    return make


@pytest.fixture
def saved(store: Store, task: Task, make_kernel: Callable[..., Kernel]) -> list[Kernel]:
    """Three kernels of one task, in the store."""
    made = [make_kernel(number) for number in range(3)]
    tasks.save(store, task)
    for kernel in made:
        kernels.save(store, kernel)
    return made


@pytest.fixture
def make_measurement(task: Task, make_kernel: Callable[..., Kernel]) -> Callable[..., Measurement]:
    def make(**changes: Any) -> Measurement:
        fields: dict[str, Any] = {
            "id": new_id("m"),
            "kernel_id": make_kernel(0).id,
            "baseline_id": make_kernel(1).id,
            "task_id": task.id,
            "task_name": task.name,
            "device": "cpu",
            "device_id": "cpu-1",
            "lane": "host-code",
            "launch_mode": "process",
            "effort": "quick",
            "verdict": "ok",
            "reason": "",
            "comparison": "faster",
            "log2_speedup": 1.0,
            "time_us": 10.0,
            "created_at": utc_now(),
        }
        return Measurement(**{**fields, **changes})

    return make


@pytest.fixture
def make_forecast(task: Task, make_kernel: Callable[..., Kernel]) -> Callable[..., Forecast]:
    def make(**changes: Any) -> Forecast:
        fields: dict[str, Any] = {
            "id": new_id("f"),
            "kernel_id": make_kernel(0).id,
            "baseline_id": make_kernel(1).id,
            "task_id": task.id,
            "device": "cpu",
            "forecaster": "agent:test",
            "p_correct": 0.9,
            "p_bins": (0.0, 0.0, 0.125, 0.125, 0.25, 0.25, 0.25, 0.0),
            "log2_median": 0.25,
            "log2_p10": -0.5,
            "log2_p90": 1.0,
            "created_at": utc_now(),
        }
        return Forecast(**{**fields, **changes})

    return make
