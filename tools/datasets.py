"""Measured kernels to train on and to evaluate with: the user's store, another store's file, or an exported one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..store import kernels, measurements
from ..store.database import Store
from ..store.errors import InputError
from ..store.exchange import ROWS, import_
from ..store.models import Kernel, Measurement
from ..surrogate.learned.train import Sample


@contextmanager
def opened(on: str | None) -> Iterator[Store]:
    """The rows named: None is the user's store, else a path of a store (`.db`) or of an export (`.jsonl`,
    `.jsonl.gz`).

    Raises InputError for another file, StoreError for one that cannot be read.
    """
    if on is None or on.endswith(".db"):
        with Store.open_readonly(None if on is None else Path(on).expanduser().absolute()) as store:
            yield store
    elif on.endswith(ROWS):
        with tempfile.TemporaryDirectory(prefix="kforecast-") as folder, Store.open(Path(folder) / "rows.db") as store:
            import_(store, Path(on).expanduser())
            yield store
    else:
        step = "Name a store or an export: a .db, .jsonl or .jsonl.gz file of `kforecast export`."
        raise InputError("these are no rows of kforecast", value=on, next_step=step)


def newest(store: Store, *, device: str | None = None) -> list[tuple[Kernel, Measurement]]:
    """The newest believed measurement of each kernel in each group (see `group_of`), oldest first."""
    known = {kernel.id: kernel for kernel in kernels.find(store)}
    found: dict[tuple[str, str], Measurement] = {}
    for measurement in measurements.find(store, device=device, quarantined=False, limit=None):
        if measurement.verdict != "unsupported":
            found.setdefault((group_of(measurement), measurement.kernel_id), measurement)
    return [(known[measurement.kernel_id], measurement) for measurement in reversed(found.values())]


def repeats(store: Store, *, device: str | None = None) -> dict[str, dict[str, float]]:
    """Of each timed kernel's newest measurement, by its id: the times of the kernel's other measurements on the same
    model of device, newest first. Times of two kernels compare under the same name: group and place in the order."""
    series: dict[tuple[str, str, str], dict[str, list[Measurement]]] = {}
    for measurement in measurements.find(store, device=device, quarantined=False, limit=None):
        if measurement.verdict == "ok" and measurement.time_us:
            key = measurement.kernel_id, measurement.launch_mode, _model_of(measurement)
            series.setdefault(key, {}).setdefault(group_of(measurement), []).append(measurement)
    found: dict[str, dict[str, float]] = {}
    for groups in series.values():
        times = {
            f"{name} {place}": one.time_us or 0.0 for name, ones in groups.items() for place, one in enumerate(ones)
        }
        for name, ones in groups.items():
            found[ones[0].id] = {other: time for other, time in times.items() if other != f"{name} 0"}
    return found


def _model_of(measurement: Measurement) -> str:
    """The model of the device, where the measurement says one; else the physical device."""
    return str(measurement.environment.get("gpu") or measurement.device_id)


def group_of(measurement: Measurement) -> str:
    """Within which times compare: task, physical device and launch mode."""
    return f"{measurement.task_id} {measurement.device_id} {measurement.launch_mode}"


def kind_of(measurement: Measurement) -> str:
    """`cpu` or `cuda`."""
    return measurement.device.partition(":")[0]


def sample_of(kernel: Kernel, measurement: Measurement) -> Sample:
    """The pair as the learned forecaster trains on it."""
    return Sample(
        kernel=kernel,
        group=group_of(measurement),
        device_kind=kind_of(measurement),
        ok=measurement.verdict == "ok",
        time_us=measurement.time_us,
        facts=measurement.facts,
    )
