"""Which Triton this machine has, found without importing it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ....store.errors import DeviceError

INSTALL = "Install Triton with: pip install 'kforecast[triton]'"
OLDEST = (3, 4)
NEWEST = (4, 0)


@dataclass(frozen=True)
class TritonToolchain:
    """The installed package: its `__init__.py`, and its version, which fixes the ptxas that comes with it."""

    package: Path
    version: str

    @property
    def identity(self) -> str:
        """What kernel ids and the cache key hold, e.g. `triton 3.6.0`."""
        return f"triton {self.version}"


@lru_cache(maxsize=1)
def find_triton() -> TritonToolchain:
    """The Triton that `import triton` would give. Raises DeviceError where there is none, or none that we know."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None or spec.submodule_search_locations is None:
        raise DeviceError("Triton is not installed", value="triton", next_step=f"{INSTALL}.")
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        # A build of a distribution's own has another name; the package says its version in its text.
        found = re.search(r"^__version__ = ['\"]([^'\"]+)", Path(spec.origin).read_text(), re.MULTILINE)
        version = found[1] if found else ""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not OLDEST <= numbers < NEWEST:
        raise DeviceError("this Triton is not one we know how to call", value=version, next_step=f"{INSTALL}.")
    return TritonToolchain(Path(spec.origin), version)
