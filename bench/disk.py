"""Whether the disk that a compiler worked on was full: what it said then is no word on a kernel."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..store.errors import DeviceError

KERNEL_BYTES = 256 << 10
"""What the compilers of one kernel write."""
EXTENSION_BYTES = 64 << 20
"""What those of a program's extensions write."""


def check_disk(folder: Path, least: int) -> None:
    """Raises DeviceError where a file of `least` bytes has no room in `folder`, the temporary directory that a compiler
    worked in.

    For after a failure: compilers take away what they wrote, so `least` is about what one writes.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, least)
    except OSError as error:
        raise DeviceError(
            f"there is no room to compile in ({error.strerror})",
            value=folder,
            next_step="Free some space there, or set TMPDIR to a folder on another disk.",
        ) from error
