"""Starting a broker before there is a request: it gets its device ready while the kernel files are still being read.

Imports little, as it comes first.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..bench.broker import starting
from ..bench.devices.catalogue import device_kind, normal_name
from ..bench.header.files import SUFFIXES
from ..store.errors import KforecastError
from ..store.paths import store_path

_KIND = {"c": "cpu", "cuda": "cuda"}


def start_ahead(files: Sequence[str], device: str | None) -> None:
    """Start the brokers that these kernel files will be measured by, where none serve. Waits for nothing.

    device: as somebody named it; None lets the language decide. A guess by the files' names: where it is wrong, or a
    file is, a broker ends by itself that nobody has asked for anything. What fails here fails again where the
    measurement asks for its broker, and is told there.
    """
    with suppress(KforecastError, OSError):
        place = store_path()
        for where, opens in sorted({guess for file in files for guess in _guesses(file, device)}, reverse=True):
            starting.start_ahead(where, place, opens=opens)


def _guesses(file: str, device: str | None) -> list[tuple[str, bool]]:
    """The device that a file names, and whether its device-only lane will be needed; nothing where that is unclear."""
    language = SUFFIXES.get(Path(file).suffix.lower())
    if "\n" in file or language is None or not os.path.isfile(file):  # noqa: PTH113 -- no error for any text
        return []
    kind = _KIND.get(language)
    if kind is None:  # Python: what it is, only its header says
        gpu = os.path.exists("/dev/nvidiactl")  # noqa: PTH110 -- as above
        return [(normal_name(device or ("cuda" if gpu else "cpu")), False)]
    where = normal_name(device or kind)
    return [(where, True)] if device_kind(where) == kind else []
