"""What the CUDA lane holds while it is open, and that it gives all of it back."""

from __future__ import annotations

import pytest
from measured import measured

from kforecast.bench.devices.cuda.lane import CudaLane
from kforecast.bench.tasks.builtin import builtin_kernel

pytestmark = pytest.mark.gpu


def test_device_memory_is_given_back_when_the_lane_closes() -> None:
    lane = CudaLane(0)
    if not lane.monitor.available:
        pytest.skip("needs the NVML package")
    idle = lane.monitor.memory_used()
    assert idle is not None
    path = builtin_kernel("softmax_rows", "cuda", "seed")
    assert path is not None
    measured(path, lane)
    busy = lane.monitor.memory_used()
    lane.close()
    after = lane.monitor.memory_used()
    assert busy is not None and after is not None
    assert busy > idle
    assert after - idle < 64 << 20
