"""From a device's name to its lane."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...store.errors import InputError
from ...store.paths import cache_dir

if TYPE_CHECKING:
    from ...store.models import Language
    from ..lane import Lane
    from .cuda.ahead import StartedAhead


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


def ordinal_of(device: str) -> int:
    """The number of a CUDA device: 1 of `cuda:1`, 0 of `cuda`. Raises InputError for a name that is no device."""
    return int(normal_name(device).partition(":")[2] or 0)


def runs_hosted(*languages: Language) -> bool:
    """Whether a measurement whose sides are of these languages runs in a device's host-code lane for Python: beside a
    Python program device code is launched from Python, too.
    """
    return "torch" in languages


def open_lane(device: str, profile: Callable[[str], Mapping[str, Any] | None] = lambda device_id: None) -> Lane:
    """The lane of a device.

    profile: from a physical device's id to the facts of its stored profile, None without one; floors follow from it.
    Raises DeviceError where the machine lacks it, InputError for a name that is no device.
    """
    if device_kind(device) == "cuda":
        from .cuda.lane import CudaLane
        from .cuda.profile import rates_of

        lane = CudaLane(ordinal_of(device))
        facts = profile(lane.device_id)
        if facts is not None:
            lane.rates = rates_of(facts)
        return lane
    from .cpu.lane import CpuLane

    return CpuLane(cache_dir())


def start_helpers(device: str, sharers: int) -> StartedAhead | None:
    """Start the helper processes of the device-only lane that `open_lane` opens later; None for a device that has none.

    sharers: how many processes will measure on the device beside each other. Raises DeviceError where the machine lacks
    the device, InputError for a name that is no device.
    """
    if device_kind(device) == "cpu":
        return None
    from .cuda.ahead import StartedAhead

    return StartedAhead(ordinal_of(device), sharers)


def open_hosted(device: str) -> Lane:
    """The lane of a device that runs PyTorch programs. Raises DeviceError where there is no PyTorch or no device."""
    from ..hosted.lane import HostedLane

    if device_kind(device) == "cuda":
        from .cuda.device import device_facts

        return HostedLane(normal_name(device), device_facts(ordinal_of(device)).uuid, cache_dir())
    from .cpu.machine import device_id

    return HostedLane(device, device_id(), cache_dir())
