"""The memory that a candidate process shares with its parent: two sealed memory files, tensors flush against guard
pages.

Inputs live in a file that is sealed against new writable mappings: the candidate can map it for reading only. Every
tensor ends (up to its 256-byte alignment) at the end of its pages, so that a write past it faults at once; the few
bytes of slack before and behind it are a red zone that the parent compares after every call.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....store.errors import DeviceError
from ...correctness.poison import fill_poison
from ...tasks.dtypes import numpy_dtype

PAGE = mmap.PAGESIZE
GUARD = 1 << 20
_ALIGN = 256
_RED = 0xA5
# <linux/fcntl.h>; Python's fcntl module has no F_SEAL_FUTURE_WRITE before 3.13.
_F_ADD_SEALS, _F_SEAL_SHRINK, _F_SEAL_GROW, _F_SEAL_FUTURE_WRITE = 1033, 0x2, 0x4, 0x10

Array = NDArray[Any]
_random = np.random.default_rng()


@dataclass(frozen=True)
class Block:
    """What one tensor or scratch buffer needs: shape in elements, and whether the candidate may write it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    writable: bool
    zeroed: bool = False


@dataclass(frozen=True)
class Region:
    """Where a block lies: page-aligned `offset` and `mapped` bytes in its file, the tensor's bytes from `start`."""

    block: Block
    offset: int
    mapped: int
    start: int
    size: int


class Arena:
    """The shared memory of one case. Close it (or use `with`) to give the memory back."""

    def __init__(self, blocks: Sequence[Block], *, sealed: bool = True) -> None:
        self.regions: dict[str, Region] = {}
        self._sizes = [0, 0]
        for block in blocks:
            size = max(math.prod(block.shape) * numpy_dtype(block.dtype).itemsize, 1)
            padded = -(-size // _ALIGN) * _ALIGN
            mapped = -(-padded // PAGE) * PAGE
            which = int(block.writable)
            self.regions[block.name] = Region(block, self._sizes[which], mapped, mapped - padded, size)
            self._sizes[which] += mapped
        self.files: list[int] = []
        self._maps: list[mmap.mmap] = []
        try:
            for which, name in enumerate(("kforecast-inputs", "kforecast-outputs")):
                length = max(self._sizes[which], PAGE)
                file = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
                self.files.append(file)
                os.ftruncate(file, length)
                self._maps.append(mmap.mmap(file, length))
                seals = _F_SEAL_SHRINK | _F_SEAL_GROW | (0 if which or not sealed else _F_SEAL_FUTURE_WRITE)
                fcntl.fcntl(file, _F_ADD_SEALS, seals)
        except OSError as error:
            self.close()
            raise DeviceError(
                "cannot allocate the shared memory of a measurement",
                value=f"{sum(self._sizes)} bytes ({error.strerror})",
                next_step="Free memory, or measure a smaller case.",
            ) from error
        self._bytes = [np.frombuffer(view, dtype=np.uint8) for view in self._maps]
        self.arrays: dict[str, Array] = {name: self._view(region) for name, region in self.regions.items()}
        for region in self.regions.values():
            for zone in self._red_zones(region):
                zone.fill(_RED)

    def _page_bytes(self, region: Region) -> Array:
        whole = self._bytes[int(region.block.writable)]
        return whole[region.offset : region.offset + region.mapped]

    def _view(self, region: Region) -> Array:
        data = self._page_bytes(region)[region.start : region.start + region.size]
        dtype = numpy_dtype(region.block.dtype)
        return data[: math.prod(region.block.shape) * dtype.itemsize].view(dtype).reshape(region.block.shape)

    def _red_zones(self, region: Region) -> tuple[Array, Array]:
        pages = self._page_bytes(region)
        return pages[: region.start], pages[region.start + region.size :]

    def load(self, values: Mapping[str, Array]) -> None:
        """Copy inputs (role `in` and `inout`) into place."""
        for name, value in values.items():
            np.copyto(self.arrays[name], value)

    def poison(self, names: Sequence[str]) -> None:
        """Fill outputs and scratch with the poison pattern of their dtype."""
        for name in names:
            fill_poison(self.arrays[name], self.regions[name].block.dtype)

    def overrun(self) -> str | None:
        """What was written outside a tensor, in words; None if nothing was."""
        for name, region in self.regions.items():
            if not region.block.writable:
                continue
            before, behind = self._red_zones(region)
            hit = np.flatnonzero(behind != _RED)
            if hit.size:
                return f"wrote outside {name}: {hit.size} bytes changed, the first {int(hit[0])} bytes past its end"
            hit = np.flatnonzero(before != _RED)
            if hit.size:
                nearest = region.start - int(hit[-1])
                return f"wrote outside {name}: {hit.size} bytes changed, the nearest {nearest} bytes before its start"
        return None

    def close(self) -> None:
        """Give the memory back. Arrays handed out earlier keep their pages alive until they are dropped."""
        self.arrays = {}
        self._bytes = []
        self._maps = []
        for file in self.files:
            os.close(file)
        self.files = []

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


GLANCES = 64
"""Elements of each output looked at when the answer comes. With a share f still missing, (1 - f)^64 goes unseen."""


class Glance:
    """Some elements of every output, chosen at random before a call and read when its answer comes.

    A kernel that answers first and computes afterwards is caught by what it has not written yet.
    """

    def __init__(self, arena: Arena) -> None:
        self._places: list[tuple[str, Array, Array]] = []
        for name, region in arena.regions.items():
            if region.block.writable and "/" not in name:
                values = arena.arrays[name].reshape(-1)
                bits = values.view(f"u{values.itemsize}")
                self._places.append((name, bits, _random.integers(bits.size, size=min(GLANCES, bits.size))))
        self._seen: list[Array] = []

    def take(self) -> None:
        """Read the chosen elements now."""
        self._seen = [bits[places] for _, bits, places in self._places]

    def changed(self) -> str | None:
        """The name of an output that is not any more as it was when `take` read it."""
        for (name, bits, places), seen in zip(self._places, self._seen, strict=True):
            if not np.array_equal(bits[places], seen):
                return name
        return None
