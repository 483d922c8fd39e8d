"""What a GPU is, asked of the driver without a context: a broker must know it before it starts anything."""

from __future__ import annotations

import ctypes
import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ....store.errors import DeviceError

# CUdevice_attribute numbers of the driver API's cuda.h.
_SM_COUNT, _SMEM_OPTIN, _L2, _MAJOR, _MINOR, _PAGEABLE, _CLOCK_KHZ = 16, 97, 38, 75, 76, 88, 13


_PACKAGES = {"cuda-bindings": "cuda", "cupy": "cupy"}


@dataclass(frozen=True)
class DeviceFacts:
    """Identity and limits of one GPU. Bytes where not said otherwise."""

    name: str
    uuid: str
    arch: str
    sm_count: int
    smem_max: int
    l2_bytes: int
    memory_bytes: int
    boost_mhz: float
    """The SMs' highest clock."""
    pageable_memory_access: bool
    """Device code can read the host memory of its process."""


def require_packages() -> None:
    """Raises DeviceError where the packages that the device's processes import are missing."""
    missing = [name for name, module in _PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise DeviceError(
            "packages that a GPU needs are missing",
            value=", ".join(missing),
            next_step="Install them with: pip install 'kforecast[gpu]'.",
        )


@lru_cache(maxsize=16)
def device_facts(ordinal: int) -> DeviceFacts:
    """Facts of `cuda:ordinal`. Raises DeviceError where there is no driver or no such device."""
    try:
        cuda: Any = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceError(
            "there is no CUDA driver here",
            value=f"cuda:{ordinal}",
            next_step="CUDA and Triton kernels need an NVIDIA GPU; `kforecast facts` needs none. "
            "PyTorch programs run on the device `cpu`, too.",
        ) from error

    def check(code: int, call: str) -> None:
        if code:
            raise DeviceError(
                f"the CUDA driver refuses {call}",
                value=f"cuda:{ordinal}, CUresult {code}",
                next_step="Check `nvidia-smi`; CUDA_VISIBLE_DEVICES may hide the device.",
            )

    check(cuda.cuInit(0), "cuInit")
    device = ctypes.c_int()
    check(cuda.cuDeviceGet(ctypes.byref(device), ordinal), "cuDeviceGet")

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        check(cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device), f"cuDeviceGetAttribute({number})")
        return value.value

    name = ctypes.create_string_buffer(256)
    check(cuda.cuDeviceGetName(name, len(name), device), "cuDeviceGetName")
    raw = (ctypes.c_ubyte * 16)()
    check(cuda.cuDeviceGetUuid_v2(ctypes.byref(raw), device), "cuDeviceGetUuid")
    digits = bytes(raw).hex()
    total = ctypes.c_size_t()
    check(cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device), "cuDeviceTotalMem")
    return DeviceFacts(
        name=name.value.decode(),
        uuid=f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}",
        arch=f"sm_{attribute(_MAJOR)}{attribute(_MINOR)}",
        sm_count=attribute(_SM_COUNT),
        smem_max=attribute(_SMEM_OPTIN),
        l2_bytes=attribute(_L2),
        memory_bytes=total.value,
        boost_mhz=attribute(_CLOCK_KHZ) / 1e3,
        pageable_memory_access=bool(attribute(_PAGEABLE)),
    )
