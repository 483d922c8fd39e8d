"""The device that a forecast is about: what is known of it without opening it, or without its being here at all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..bench.devices.catalogue import device_kind, ordinal_of
from ..store.database import Store
from .probes import Gpu, gpus, usable_cores
from .profile import profile_words, stored_profile


@dataclass(frozen=True)
class Place:
    """A device by name. device_id: the physical device, None where this machine has no such device; rows are then
    told by the name alone. arch: what CUDA kernels are compiled for. line: the device in one line."""

    device: str
    kind: str
    device_id: str | None = None
    arch: str | None = None
    line: str = ""


def place_of(device: str, store: Store) -> Place:
    """What is known of a device (`cpu`, `cuda:0`), from the machine and from its stored profile."""
    kind = device_kind(device)
    if kind == "cpu":
        return _cpu()
    gpu = next((gpu for gpu in _gpus() if gpu.index == ordinal_of(device)), None)
    if gpu is None:
        return Place(device, kind)
    profile = stored_profile(gpu.uuid, store)
    words = [] if profile is None else [f"{label}: {text}" for label, text in profile_words(profile.facts)]
    arch = f"sm_{gpu.compute_capability.replace('.', '')}"
    return Place(device, kind, gpu.uuid, arch, "; ".join([f"{gpu.name} ({arch})", *words]))


@lru_cache(maxsize=1)
def _cpu() -> Place:
    from ..bench.devices.cpu.machine import cache_bytes, device_id, model_name

    line = f"{model_name()}, {usable_cores()} cores, largest cache {cache_bytes() >> 20} MiB"
    return Place("cpu", "cpu", device_id(), None, line)


@lru_cache(maxsize=1)
def _gpus() -> tuple[Gpu, ...]:
    # The driver answers in tens to hundreds of milliseconds, and GPUs stay where they are.
    return tuple(gpus())
