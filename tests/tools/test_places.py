"""What is said of a device that is not opened."""

from __future__ import annotations

import pytest

from kforecast.bench.devices.cpu.machine import cache_bytes, caches, vector_sets
from kforecast.store.database import Store
from kforecast.tools.places import place_of
from kforecast.tools.probes import is_busy, usable_cores


def test_the_cpu_is_told_by_what_bounds_a_kernel_on_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 9.0, 9.0))
    place = place_of("cpu", store)
    cores = usable_cores()
    assert f"{cores} core" in place.line
    for name in vector_sets():
        assert name in place.line
    for name, size in caches():
        number = size >> 20 if size >= 1 << 20 else size >> 10
        assert f"{name} {number} " in place.line
    assert place.line.endswith("load now 0.1")
    assert "floor not known" in place.no_floor
    monkeypatch.setattr("os.getloadavg", lambda: (4.0 + cores, 0.0, 0.0))
    assert place_of("cpu", store).line.endswith(f"load now {4.0 + cores:.1f} (busy)")


def test_caches_grow_from_the_core_outward() -> None:
    sizes = [size for _, size in caches()]
    assert sizes == sorted(sizes)
    assert cache_bytes() >= max(sizes, default=0)


@pytest.mark.parametrize(
    ("load", "cores", "busy"), [(0.0, 1, False), (1.2, 2, False), (1.9, 2, True), (3.0, 64, False)]
)
def test_a_machine_is_busy_when_less_than_half_a_core_is_left(load: float, cores: int, busy: bool) -> None:
    assert is_busy(load, cores) is busy
