"""Temporary files of a broker in one folder of its own, which the next broker drops if this one is killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...store.paths import RUNTIME_VARIABLE, runtime_dir
from . import processes_alive

_PREFIX = "kforecast-broker-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Inside the block, `tempfile` of this process works in a folder that names its owner; dead owners' folders go."""
    base = Path(tempfile.gettempdir())
    # Where no variable says otherwise it lies in the temporary directory: the one that every process of the user means.
    os.environ[RUNTIME_VARIABLE] = str(runtime_dir())
    _sweep(base)
    owner = processes_alive.owner_name("broker").removeprefix("broker:").replace(":", "-")
    folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{owner}-", dir=base)
    before = tempfile.tempdir
    tempfile.tempdir = folder
    try:
        yield Path(folder)
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(base: Path) -> None:
    for folder in base.glob(f"{_PREFIX}*"):
        pid, _, ticks = folder.name.removeprefix(_PREFIX).rpartition("-")[0].partition("-")
        try:
            ours = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
        except FileNotFoundError:
            continue  # another broker sweeps too
        if ours and processes_alive.is_gone(f"broker:{pid}:{ticks}"):
            shutil.rmtree(folder, ignore_errors=True)
