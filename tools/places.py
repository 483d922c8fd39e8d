"""The device that a forecast is about: what is known of it without opening it, or without its being here at all."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache

from ..bench.devices.catalogue import device_kind, ordinal_of
from ..store.database import Store
from .probes import Gpu, gpus, is_busy, usable_cores
from .profile import profile_words, stored_profile

_CPU_FLOOR = "floor not known: no command measures what a cpu does at best"
_NO_PROFILE = "floor not known: `kforecast doctor --profile` measures what it follows from"
_NO_READING = "floor not known before a kernel of this task is measured"


@dataclass(frozen=True)
class Place:
    """A device by name. device_id: the physical device, None where this machine has no such device; rows are then
    told by the name alone. arch: what CUDA kernels are compiled for. line: the device in one line."""

    device: str
    kind: str
    device_id: str | None = None
    arch: str | None = None
    line: str = ""
    no_floor: str = ""
    """Where tasks have no known floor on it: why, and what would make one known."""


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
    no_floor = _NO_PROFILE if profile is None else _NO_READING
    arch = f"sm_{gpu.compute_capability.replace('.', '')}"
    return Place(device, kind, gpu.uuid, arch, "; ".join([f"{gpu.name} ({arch})", *words]), no_floor)


def _cpu() -> Place:
    from ..bench.devices.cpu.machine import device_id

    load = os.getloadavg()[0]
    words = f"{_cpu_words()}, load now {load:.1f}" + (" (busy)" if is_busy(load, usable_cores()) else "")
    return Place("cpu", "cpu", device_id(), None, words, no_floor=_CPU_FLOOR)


@lru_cache(maxsize=1)
def _cpu_words() -> str:
    from ..bench.devices.cpu.machine import caches, model_name, vector_sets

    cores = usable_cores()
    sizes = [f"{name} {f'{size >> 20} MiB' if size >= 1 << 20 else f'{size >> 10} KiB'}" for name, size in caches()]
    parts = (model_name(), f"{cores} core{'' if cores == 1 else 's'}", " ".join(vector_sets()), ", ".join(sizes))
    return ", ".join(part for part in parts if part)


@lru_cache(maxsize=1)
def _gpus() -> tuple[Gpu, ...]:
    # The driver answers in tens to hundreds of milliseconds, and GPUs stay where they are.
    return tuple(gpus())
