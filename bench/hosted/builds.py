"""Where programs' compiled extensions are kept: one folder a kernel and toolchain, complete or not there."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG

from ...store.models import Kernel
from ...store.paths import writing_to_cache
from ..languages.torch import toolchain
from .compilers import PLACE, rename_in_groups

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
        """Keep what a building process left: copied beside, then renamed, so that nobody sees a part of it.

        Where there is a build already, of other cases, its files stay and new ones come to it, one by one. Raises
        DeviceError where the cache cannot be written.
        """
        with writing_to_cache(self._root):
            self._keep(kernel, made)

    def _keep(self, kernel: Kernel, made: Path) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._root, prefix=".building-") as text:
            copy, kept = Path(text) / "cache", self.folder(kernel)
            shutil.copytree(made, copy, symlinks=True, ignore=_left_out)
            rename_in_groups(copy, str(made), PLACE)
            with contextlib.suppress(OSError):  # there is one
                copy.rename(kept)
                return
            files = [path for path in copy.rglob("*") if path.is_symlink() or not path.is_dir()]
            # Those that say that a group of files is complete come last.
            for path in sorted(files, key=lambda one: one.name.startswith(("__grp__", "kforecast-"))):
                place = kept / path.relative_to(copy)
                place.parent.mkdir(parents=True, exist_ok=True)
                path.replace(place)


def _left_out(folder: str, names: list[str]) -> set[str]:
    """What nobody needs of a folder that a build left, and what is neither a file nor a link nor a folder."""
    kinds = {name: (Path(folder) / name).lstat().st_mode for name in names}
    odd = {name for name, mode in kinds.items() if not any(is_(mode) for is_ in (S_ISREG, S_ISLNK, S_ISDIR))}
    return odd | {name for name in names if name == "lock" or name.endswith(".o")}
