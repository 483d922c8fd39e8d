"""A stand-in for cupy over numpy, enough for the oracle: the same calls on host memory, its kernels as Python loops.

What it cannot show is the device code; `tests/bench/devices/test_cuda_exhibits.py` runs that where a GPU is.
"""

from __future__ import annotations

import ctypes
import math
from types import SimpleNamespace
from typing import Any

import numpy as np


class Array(np.ndarray):
    """A numpy array with what cupy's has besides: a device pointer, and `get`."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.ctypes.data)

    def get(self) -> np.ndarray:
        return np.array(self)


def _bytes(pointer: int, size: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_ubyte * size).from_address(pointer), dtype=np.uint8)


def _pattern(word: int, size: int) -> np.ndarray:
    whole = np.frombuffer(np.uint64(word).tobytes() * (size // 8 + 1), np.uint8)
    return whole[:size]


def _copy_many(to: Any, source: Any, sizes: Any) -> None:
    for target, origin, size in zip(to, source, sizes, strict=True):
        _bytes(int(target), int(size))[:] = _bytes(int(origin), int(size))


def _fill_many(to: Any, words: Any, sizes: Any) -> None:
    for target, word, size in zip(to, words, sizes, strict=True):
        _bytes(int(target), int(size))[:] = _pattern(int(word), int(size))


def _differ_many(first: Any, others: Any, sizes: Any, patterns: Any, flags: Any) -> None:
    for index, (a, other, size, is_word) in enumerate(zip(first, others, sizes, patterns, strict=True)):
        expected = _pattern(int(other), int(size)) if is_word else _bytes(int(other), int(size))
        if not np.array_equal(_bytes(int(a), int(size)), expected):
            flags[index] = 1


def _judge(
    got: Any,
    kind: Any,
    golden: Any,
    row: Any,
    length: Any,
    given: Any,
    most: Any,
    tail: Any,
    top: Any,
    n: Any,
    out: Any,
) -> None:
    count = int(n)
    flat = np.asarray(got).reshape(-1)
    value = (flat.astype(np.uint32) << 16).view(np.float32).astype(float) if int(kind) == 3 else flat.astype(float)
    golden = np.asarray(golden)
    rms = np.asarray(row)[np.arange(count) // int(length)]
    with np.errstate(all="ignore"):
        scale = np.maximum(np.where(np.isfinite(golden), np.abs(golden), rms), rms)
        if int(given):
            told = _bytes(int(given), 8 * count).view(np.float64)
            scale = np.where(np.isfinite(told) & (told > 0), told, scale)
        error = np.abs(value - golden) / scale
        number = (error <= most) & (np.abs(golden) <= 1.01 * top)
        infinity = np.isinf(value) & ((value > 0) == (golden > 0)) & (np.abs(golden) >= 0.99 * top)
        right = number | infinity | (np.isnan(value) & np.isnan(golden))
    finite = np.isfinite(error)
    out.view(np.float64)[0] = np.square(np.minimum(error[finite], 1e100)).sum()
    out.view(np.uint64)[1:4] = finite.sum(), (~right).sum(), (error[finite] > tail).sum()


_KERNELS = {
    "copy_many": _copy_many,
    "fill_many": _fill_many,
    "differ_many": _differ_many,
    "judge": _judge,
}


class _Device:
    def __init__(self, ordinal: int = 0) -> None:
        self.ordinal = ordinal
        self.attributes = {"MultiProcessorCount": 4}

    def use(self) -> None:
        pass


class _Runtime:
    CUDARuntimeError = RuntimeError

    def __init__(self) -> None:
        self.slabs: dict[int, np.ndarray] = {}

    def malloc(self, size: int) -> int:
        slab = np.zeros(size + 256, np.uint8)
        start = -(-slab.ctypes.data // 256) * 256
        self.slabs[start] = slab
        return start

    def free(self, pointer: int) -> None:
        del self.slabs[pointer]

    def ipcGetMemHandle(self, pointer: int) -> bytes:
        return pointer.to_bytes(64, "little")

    def deviceSynchronize(self) -> None:
        pass

    def memGetInfo(self) -> tuple[int, int]:
        return 1 << 34, 1 << 35


class _Generator:
    """numpy's generator with cupy's habit of handing out cupy arrays."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        draw = getattr(self._generator, name)
        return lambda *args, **kwargs: np.asarray(draw(*args, **kwargs)).view(Array)


class FakeCupy:
    """The module. Functions are numpy's, on arrays of ours."""

    def __init__(self) -> None:
        self.runtime = _Runtime()
        memory = SimpleNamespace(
            Device=_Device,
            runtime=self.runtime,
            UnownedMemory=lambda pointer, size, owner: pointer,
            MemoryPointer=lambda memory, offset: memory + offset,
        )
        self.cuda = memory
        self.random = SimpleNamespace(default_rng=_Generator)
        self.used_bytes = self.total_bytes = 0
        self.given_back: list[int] = []
        """What the pool held when its free blocks were given back."""

    def RawModule(self, path: str) -> Any:
        def get_function(name: str) -> Any:
            return lambda grid, block, arguments: _KERNELS[name](*arguments)

        return SimpleNamespace(get_function=get_function)

    @property
    def kernels(self) -> list[str]:
        """Those it stands in for."""
        return list(_KERNELS)

    def get_default_memory_pool(self) -> Any:
        return SimpleNamespace(
            free_all_blocks=lambda: self.given_back.append(self.total_bytes),
            used_bytes=lambda: self.used_bytes,
            total_bytes=lambda: self.total_bytes,
        )

    def ndarray(self, shape: tuple[int, ...], dtype: Any, memptr: int) -> Array:
        size = max(math.prod(shape) * np.dtype(dtype).itemsize, 1)
        return (
            _bytes(memptr, size)[: math.prod(shape) * np.dtype(dtype).itemsize].view(dtype).reshape(shape).view(Array)
        )

    def asnumpy(self, array: np.ndarray) -> np.ndarray:
        return np.array(array)

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if not callable(found) or isinstance(found, type):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            return result.view(Array) if isinstance(result, np.ndarray) else result

        return call
