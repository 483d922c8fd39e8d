"""Host memory that a GPU copies from and to by itself, at the bus's speed, not through buffers of the driver's."""

from __future__ import annotations

import ctypes
import mmap

_LEAST_BYTES = 16 << 20
"""Smaller copies do not gain what registering costs."""
# <cuda.h>: the device may read and write the range, or only read it.
_READ_WRITE, _READ_ONLY = 0x00, 0x08


def pin(area: mmap.mmap, *, writable: bool) -> bool:
    """Register a mapping with the current CUDA context, as cuMemHostRegister does. Whether that was done: where the
    driver refuses (no such feature, or a limit on locked memory) copies work as before, only slower.

    The context must be current in this thread. Source: CUDA driver API, memory management.
    """
    if len(area) < _LEAST_BYTES:
        return False
    flags = _READ_WRITE if writable else _READ_ONLY
    register = ctypes.CDLL("libcuda.so.1").cuMemHostRegister_v2
    return bool(register(ctypes.c_void_p(_address(area)), ctypes.c_size_t(len(area)), ctypes.c_uint(flags)) == 0)


def unpin(area: mmap.mmap) -> None:
    """Take back what `pin` did; the mapping may be closed then."""
    ctypes.CDLL("libcuda.so.1").cuMemHostUnregister(ctypes.c_void_p(_address(area)))


def _address(area: mmap.mmap) -> int:
    import numpy as np

    return int(np.frombuffer(area, dtype=np.uint8).ctypes.data)
