"""What the measuring scripts share: where a result comes from, a store of their own, and the time that is left."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kforecast import __version__
from kforecast.bench.devices.cpu import machine
from kforecast.bench.languages.c import toolchain
from kforecast.store.clock import utc_now
from kforecast.store.database import Store


def provenance() -> dict[str, Any]:
    """Machine, versions, commit and date: what a committed result has to say about itself."""
    return {
        "date": utc_now(),
        "commit": _git("rev-parse", "HEAD"),
        "changed_files": len(_git("status", "--porcelain", "--untracked-files=no").splitlines()),
        "machine": {**machine.describe(), "device_id": machine.device_id()},
        "versions": {
            "kforecast": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "compiler": toolchain(cpp=False),
        },
    }


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


@contextmanager
def own_store() -> Iterator[Store]:
    """A store that is thrown away; device lock and caches are the user's own, so other measuring is not disturbed."""
    with tempfile.TemporaryDirectory(prefix="kforecast-script-") as directory:
        os.environ["KFORECAST_DB"] = str(Path(directory) / "kforecast.db")
        os.environ["KFORECAST_BROKER_IDLE_S"] = "5"
        with Store.open() as store:
            yield store


def kept_rows(out: Path | None) -> list[dict[str, Any]]:
    """The rows of an earlier, unfinished run of the script on this machine and commit; none where it was another."""
    if out is None or not out.exists():
        return []
    found = json.loads(out.read_text())
    here = provenance()
    same = all(found.get(name) == here[name] for name in ("commit", "machine", "versions"))
    rows: list[dict[str, Any]] = found["rows"] if same else []
    print(f"{out}: {f'going on after {len(rows)} rows' if same else 'of another machine or commit: begun anew'}")
    return rows


def write(out: Path | None, summary: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Write the results so far; a reader sees the old ones or the new ones, never half."""
    if out is None:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(out.name + ".new")
    temporary.write_text(json.dumps({**provenance(), "summary": summary, "rows": rows}, indent=1) + "\n")
    temporary.rename(out)


class TimeLeft:
    """Tells on stderr how much is done and how long the rest will take at the pace so far."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._begin = time.monotonic()
        self._done = 0

    def one_more(self, what: str) -> None:
        self._done += 1
        left_s = (time.monotonic() - self._begin) / self._done * (self._total - self._done)
        print(f"{self._done} of {self._total}: {what}; about {left_s / 60:.0f} min left", file=sys.stderr)
