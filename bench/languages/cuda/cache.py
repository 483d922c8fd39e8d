"""A content-addressed cache of builds: entries appear whole or not at all, are checked when read, the oldest give way.

An entry is a folder `<root>/<2 hex>/<key>` with `entry.json` (data, and the size and SHA-256 of every file) and its
files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....store.paths import writing_to_cache

_MANIFEST = "entry.json"
_IN_USE_S = 600.0
"""An entry used this recently is never evicted: somebody may be about to load it."""
_CHECK_EVERY = 64


@dataclass(frozen=True)
class Entry:
    """A verified entry: its data, and the paths of its files by name."""

    data: dict[str, Any]
    files: dict[str, Path]


class BuildCache:
    """Builds under `root`, at most about `max_bytes` of them. Processes and threads may share a root freely."""

    def __init__(self, root: Path, *, max_bytes: int = 2 << 30) -> None:
        self.root = root
        self.max_bytes = max_bytes
        self._writes = 0

    def get(self, key: str) -> Entry | None:
        """The entry, touched as used now; None where it is missing or damaged (a damaged one is removed)."""
        folder = self._folder(key)
        if not folder.exists():
            return None
        try:
            manifest = json.loads((folder / _MANIFEST).read_bytes())
            files = {}
            for name, (size, digest) in manifest["files"].items():
                content = (folder / name).read_bytes()
                if len(content) != size or hashlib.sha256(content).hexdigest() != digest:
                    raise ValueError(f"{name} is damaged")
                files[name] = folder / name
            with contextlib.suppress(OSError):  # a cache that is only read from says nothing of its use
                os.utime(folder)
            return Entry(dict(manifest["data"]), files)
        except (OSError, ValueError, KeyError, TypeError):
            pass  # damaged: removed below and built again
        self._remove(folder)
        return None

    def put(self, key: str, data: Mapping[str, Any], files: Mapping[str, bytes]) -> Entry:
        """Store an entry, or take the one that another process stored first. Raises DeviceError where the cache cannot
        be written.
        """
        folder = self._folder(key)
        with writing_to_cache(folder.parent):
            self._put(folder, data, files)
        self._writes += 1
        if self._writes % _CHECK_EVERY == 1:
            self.evict()
        return Entry(dict(data), {name: folder / name for name in files})

    def _put(self, folder: Path, data: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        digests = {name: [len(content), hashlib.sha256(content).hexdigest()] for name, content in files.items()}
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
        try:
            for name, content in files.items():
                (draft / name).write_bytes(content)
            (draft / _MANIFEST).write_text(json.dumps({"data": dict(data), "files": digests}))
            try:
                draft.rename(folder)
            except OSError:
                # Taken: by an equal build of somebody else, or by a damaged one, which has to go.
                if self.get(folder.name) is None:
                    draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def evict(self) -> None:
        """Remove the entries used longest ago until the rest fits, and drafts that a killed process left."""
        now = time.time()
        entries = []
        for folder in self.root.glob("??/*"):
            with contextlib.suppress(FileNotFoundError):
                used = folder.stat().st_mtime
                size = sum(path.stat().st_size for path in folder.iterdir())
                if not folder.name.startswith(".draft-"):
                    entries.append((used, size, folder))
                elif now - used > _IN_USE_S:
                    self._remove(folder)
        total = sum(size for _, size, _ in entries)
        for used, size, folder in sorted(entries):
            if total <= self.max_bytes or now - used < _IN_USE_S:
                break
            self._remove(folder)
            total -= size

    def _folder(self, key: str) -> Path:
        return self.root / key[:2] / key

    def _remove(self, folder: Path) -> None:
        """Take a folder away at once, then delete it: nobody may see half of an entry."""
        with writing_to_cache(folder.parent):
            grave = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
        try:
            folder.rename(grave / "entry")
        except FileNotFoundError:
            pass  # somebody else removed it
        finally:
            shutil.rmtree(grave, ignore_errors=True)
