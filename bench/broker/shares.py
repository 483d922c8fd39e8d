"""How many measure on a device at once."""

from __future__ import annotations

import os

from ...store.errors import DeviceError
from ..devices.catalogue import device_kind, ordinal_of
from .protocol import wanted_hands

HANDS = 4
"""Hands on a GPU at most: what was tried on an H200 with 16 cores, see docs/results/README.md."""
_CORES_A_HAND = 4
"""With fewer, hands take the cores from each other that their kernels are compiled on."""
_MEMORY_BYTES = 16 << 30
"""Of the GPU, for each hand."""


def hands_for(device: str) -> int:
    """How many measure at once on a device: `KFORECAST_HANDS`, else 1 on the cpu, and on a GPU as many as its memory
    and the machine's cores are enough for.

    Raises InputError where the variable is no positive number.
    """
    wanted = wanted_hands()
    if wanted is not None:
        return wanted
    cores = len(os.sched_getaffinity(0))
    if device_kind(device) == "cpu" or cores < 2 * _CORES_A_HAND:
        return 1
    from ..devices.cuda.device import device_facts

    try:
        memory_bytes = device_facts(ordinal_of(device)).memory_bytes
    except DeviceError:
        return 1  # whoever measures there is told why not
    return max(1, min(HANDS, cores // _CORES_A_HAND, memory_bytes // _MEMORY_BYTES))


def sharers_of(hands: int) -> int:
    """How many processes have a device open beside each other where so many measure at once: its broker, and besides
    it one for each hand where there are several.
    """
    return 1 + hands if hands > 1 else 1
