"""Where programs' compiled extensions are kept: one folder a kernel and toolchain, complete or not there."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from pathlib import Path

from ...store.models import Kernel
from ..languages.torch import toolchain

BUILD_S = 600.0


class Builds:
    """The kept builds below `cache`, for one kind of device."""

    def __init__(self, cache: Path, kind: str, deadline_s: float = BUILD_S) -> None:
        self._root = cache / "torch"
        self._kind = kind
        self.deadline_s = deadline_s

    def folder(self, kernel: Kernel) -> Path:
        """Where this kernel's build is, or would be."""
        text = "\0".join([kernel.id, kernel.source, toolchain(), self._kind])
        return self._root / hashlib.sha256(text.encode()).hexdigest()[:32]

    def keep(self, kernel: Kernel, made: Path) -> None:
        """Keep what a building process left: copied beside, then renamed, so that nobody sees a part of it."""
        self._root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._root, prefix=".building-") as text:
            copy = Path(text) / "cache"
            shutil.copytree(made, copy, symlinks=True, ignore=shutil.ignore_patterns("*.o", "lock"))
            with contextlib.suppress(OSError):  # somebody else has kept the same build meanwhile
                copy.rename(self.folder(kernel))
