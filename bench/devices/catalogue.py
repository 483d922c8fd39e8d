"""From a device's name to its lane."""

from __future__ import annotations

import re

from ...store.errors import InputError
from ...store.paths import cache_dir
from ..lane import Lane


def device_kind(device: str) -> str:
    """`cpu` or `cuda`. Raises InputError for a name that is no device."""
    if device == "cpu":
        return "cpu"
    if re.fullmatch(r"cuda(:\d+)?", device):
        return "cuda"
    raise InputError(
        "there is no such device",
        value=device,
        next_step="Use `cpu` or `cuda:0`; `kforecast doctor` lists what this machine has.",
    )


def normal_name(device: str) -> str:
    """The one spelling that rows use: `cuda` is `cuda:0`. Raises InputError for a name that is no device."""
    return "cuda:0" if device_kind(device) == "cuda" and device == "cuda" else device


def open_lane(device: str) -> Lane:
    """The lane of a device. Raises DeviceError where the machine lacks it, InputError for a name that is no device."""
    if device_kind(device) == "cuda":
        from .cuda.lane import CudaLane

        return CudaLane(int(normal_name(device).partition(":")[2]))
    from .cpu.lane import CpuLane

    return CpuLane(cache_dir())
