"""A machine without a GPU says what can still be done there."""

from __future__ import annotations

import ctypes

import pytest

from kforecast.bench.devices.cuda.device import device_facts
from kforecast.store.errors import DeviceError


def test_without_a_driver_nobody_is_sent_to_a_device_that_runs_no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", none)
    with pytest.raises(DeviceError) as told:
        device_facts(15)  # a number that no other test asks about: answers are kept
    assert told.value.value == "cuda:15"
    assert told.value.next_step.startswith("CUDA and Triton kernels need an NVIDIA GPU; `kforecast facts` needs none.")
