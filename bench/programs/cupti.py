"""The library that times a program's kernels: found CUPTI, ours built against it and kept in the cache."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ...store.errors import DeviceError
from ..languages.c import find_compiler
from ..processes import run_limited

_WHEEL_ROOTS = ("cu13", "cuda_cupti", "cuda_runtime")
_DEFAULT_ROOTS = ("/usr/local/cuda", "/usr/local/cuda/extras/CUPTI", "/opt/cuda", "/opt/cuda/extras/CUPTI")
_LIBRARY_FOLDERS = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
_DEADLINE_S = 60.0


@dataclass(frozen=True)
class Cupti:
    """Where its headers and its library are. include_dirs: `cupti.h` first, the driver's `cuda.h` among them."""

    library: Path
    include_dirs: tuple[Path, ...]


def find_cupti() -> Cupti | None:
    """CUPTI of the toolkit that CUDA_HOME names, of the `nvidia-cuda-cupti` wheel, else of /usr/local/cuda; None where
    there is none with its headers."""
    roots = list(_roots())
    folders = [folder for root in roots for folder in (root / "include", root / "targets/x86_64-linux/include")]
    headers = next((folder for folder in folders if (folder / "cupti.h").is_file()), None)
    driver = next((folder for folder in folders if (folder / "cuda.h").is_file()), None)
    libraries = [
        library for root in roots for name in _LIBRARY_FOLDERS if (library := _newest(root / name)) is not None
    ]
    if headers is None or driver is None or not libraries:
        return None
    # Of the same installation where it has both: records are laid out as the headers say.
    beside = [library for library in libraries if library.is_relative_to(headers.parent)]
    return Cupti((beside or libraries)[0], tuple(dict.fromkeys((headers, driver))))


def _roots() -> Iterator[Path]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name])
            yield Path(os.environ[name]) / "extras/CUPTI"
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        yield from (Path(place) / name for name in _WHEEL_ROOTS)
    yield from map(Path, _DEFAULT_ROOTS)


def _newest(folder: Path) -> Path | None:
    found = [path for path in folder.glob("libcupti.so*") if re.fullmatch(r"libcupti\.so(\.\d+)*", path.name)]
    return max(found, key=lambda path: [int(part) for part in re.findall(r"\d+", path.name)], default=None)


def injection(cupti: Cupti, cache: Path) -> Path:
    """The library to name in CUDA_INJECTION64_PATH, built by the system compiler at first use and kept in `cache`.

    Raises DeviceError where there is no compiler or it does not compile against these headers.
    """
    source = (resources.files(__package__) / "injection.c").read_text()
    compiler = find_compiler()
    facts = (cupti.include_dirs[0] / "cupti.h").stat()
    parts = [compiler.version, source, str(cupti), str(facts.st_size), str(facts.st_mtime_ns)]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    place = cache / "trusted" / f"injection-{key}.so"
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kforecast-") as text:
        folder = Path(text)
        (folder / "injection.c").write_text(source)
        # Absolute, and named in the library itself: nothing that the program sets decides which CUPTI it gets.
        link = [str(cupti.library), f"-Wl,-rpath,{cupti.library.parent}"]
        includes = [f"-I{include}" for include in cupti.include_dirs]
        command = [
            *compiler.command,
            "-O2",
            "-shared",
            "-fPIC",
            "-pthread",
            *includes,
            "injection.c",
            "-o",
            "a.so",
            *link,
        ]
        outcome = run_limited(command, cwd=folder, deadline_s=_DEADLINE_S)
        if outcome.returncode != 0:
            raise DeviceError(
                "the library that times kernels does not compile against this CUPTI",
                value=outcome.output[-300:],
                next_step=f"CUPTI's headers are those in {cupti.include_dirs[0]}; set CUDA_HOME to another toolkit.",
            )
        draft = Path(tempfile.mkstemp(dir=place.parent, prefix=".draft-")[1])
        shutil.copy(folder / "a.so", draft)
        draft.replace(place)
    return place
