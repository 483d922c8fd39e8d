"""Memory files that the parent shares: inputs that a candidate can only read, outputs that it never sees."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import mmap
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ...store.errors import DeviceError

# <linux/fcntl.h>; Python's fcntl module has no F_SEAL_FUTURE_WRITE before 3.13.
_F_ADD_SEALS, _F_SEAL_SHRINK, _F_SEAL_GROW, _F_SEAL_FUTURE_WRITE = 1033, 0x2, 0x4, 0x10
_MOST_AT_ONCE = 1 << 30
_PIECE = 32 << 20
_READERS = 8
"""Threads that read large memory: one alone does not use a machine's bandwidth."""


class SharedMemory:
    """One memory file of a fixed size. `path` is how the oracle opens it."""

    def __init__(self, name: str, size: int) -> None:
        self.size = max(size, mmap.PAGESIZE)
        try:
            self.file = os.memfd_create(f"kforecast-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(self.file, self.size)
            fcntl.fcntl(self.file, _F_ADD_SEALS, _F_SEAL_SHRINK | _F_SEAL_GROW)
            self.view = mmap.mmap(self.file, self.size)
        except OSError as error:
            raise DeviceError(
                "cannot allocate the shared memory of a measurement",
                value=f"{size} bytes ({error.strerror})",
                next_step="Free memory, or measure a smaller problem.",
            ) from error
        self.path = f"/proc/{os.getpid()}/fd/{self.file}"

    def seal(self) -> None:
        """From now on nobody maps it anew for writing; whoever has it mapped keeps writing."""
        fcntl.fcntl(self.file, _F_ADD_SEALS, _F_SEAL_FUTURE_WRITE)

    def bytes_at(self, offset: int, size: int) -> memoryview:
        """A view of some bytes; release it before `close`."""
        return memoryview(self.view)[offset : offset + size]

    def close(self) -> None:
        """Give the memory back once nobody maps it any more. Idempotent."""
        if self.file >= 0:
            self.view.close()
            os.close(self.file)
            self.file = -1


def same_bytes(one: memoryview, other: memoryview) -> bool:
    """Whether two views hold the same bytes, at the speed of memcmp(3)."""
    import numpy as np

    if one.nbytes != other.nbytes:
        return False
    left, right = (np.frombuffer(view, dtype=np.uint8) for view in (one, other))
    libc = ctypes.CDLL(None)
    return bool(
        libc.memcmp(ctypes.c_void_p(left.ctypes.data), ctypes.c_void_p(right.ctypes.data), ctypes.c_size_t(left.size))
        == 0
    )


def digest_of(views: Sequence[memoryview]) -> bytes:
    """A digest of views in this order: BLAKE2b of the digests of their pieces, which threads compute."""
    pieces = [view[at : at + _PIECE] for view in views for at in range(0, view.nbytes, _PIECE)]
    with ThreadPoolExecutor(min(_READERS, os.cpu_count() or 1)) as pool:
        found = list(pool.map(lambda piece: hashlib.blake2b(piece).digest(), pieces))
    for piece in pieces:
        piece.release()
    sizes = ",".join(str(view.nbytes) for view in views)
    return hashlib.blake2b(b"".join(found) + sizes.encode()).digest()


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def read_process(pid: int, address: int, size: int, into: SharedMemory, offset: int) -> int:
    """Copy bytes out of another process, which need not take part. Returns 0, or the errno that stopped it.

    Source: process_vm_readv(2).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.process_vm_readv.restype = ctypes.c_ssize_t
    start = ctypes.addressof(ctypes.c_char.from_buffer(into.view, offset))
    done = 0
    while done < size:
        piece = min(size - done, _MOST_AT_ONCE)
        mine, theirs = _Piece(start + done, piece), _Piece(address + done, piece)
        got = libc.process_vm_readv(
            pid, ctypes.byref(mine), ctypes.c_ulong(1), ctypes.byref(theirs), ctypes.c_ulong(1), ctypes.c_ulong(0)
        )
        if got <= 0:
            return ctypes.get_errno() or errno.EFAULT
        done += got
    return 0


def mapped_from(pid: int, name: str, address: int, size: int) -> bool:
    """Whether a process has bytes of that range mapped from the memory file of that name, as the kernel tells."""
    with open(f"/proc/{pid}/maps") as maps:  # noqa: PTH123
        for line in maps:
            if f"/memfd:kforecast-{name} " in line:
                begin, _, end = line.split(" ", 1)[0].partition("-")
                if int(begin, 16) < address + size and address < int(end, 16):
                    return True
    return False
