"""Kernels' sources as files that an agent or an editor can open: copies in the cache, made again when they are gone."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from ..store.errors import StoreError
from ..store.models import Kernel, Language
from ..store.paths import cache_dir, make_private_directory

_SUFFIX: dict[Language, str] = {"c": ".c", "cuda": ".cu", "triton": ".py", "torch": ".py"}


def sources_dir() -> Path:
    """The folder of the copies, in the cache; made if need be. Raises StoreError."""
    folder = cache_dir() / "sources"
    make_private_directory(folder)
    return folder


def copy_of(kernel: Kernel) -> Path:
    """A file with the kernel's source as it was given, and beside it the files it includes.

    The folder is the kernel's own, named by its id. What somebody changed there is put back: an id means one text.
    Raises StoreError where the cache cannot be written.
    """
    folder = sources_dir() / kernel.id
    path = folder / _file_name(kernel)
    try:
        _put(path, kernel.source)
        for name, text in kernel.includes.items():
            beside = PurePosixPath(name)
            if not beside.is_absolute() and ".." not in beside.parts:
                _put(folder / beside, text)
    except OSError as error:
        step = "Make room and give yourself permission there, or set KFORECAST_CACHE_DIR to another absolute path."
        raise StoreError(f"A source cannot be copied ({error.strerror})", value=path, next_step=step) from error
    return path


def _file_name(kernel: Kernel) -> str:
    stem = re.sub(r"[^\w.-]", "_", Path(kernel.name).stem)[:60].strip(".") or "kernel"
    suffix = Path(kernel.name).suffix
    return stem + (suffix if re.fullmatch(r"\.\w{1,5}", suffix) else _SUFFIX[kernel.language])


def _put(path: Path, text: str) -> None:
    """Write the file unless it says this already; a reader never sees half of it."""
    wanted = text.encode("utf-8", "surrogatepass")
    if path.is_file() and path.read_bytes() == wanted:
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    new.write_bytes(wanted)
    new.rename(path)
