"""Which CUDA compiler, headers and disassemblers this machine has, found without loading any of them."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ....store.errors import DeviceError

INSTALL = "Install a compiler with: pip install 'kforecast[cuda-compile]'"
_DEFAULT_ROOT = Path("/usr/local/cuda")
_WHEEL_ROOTS = ("cu13", "cuda_nvrtc", "cuda_runtime", "cuda_cccl", "cuda_nvcc", "cuda_cuobjdump", "cuda_nvdisasm")
# One header of each set that NVRTC programs ask for: the runtime's, the compiler's own, libcu++.
_HEADER_SETS = ("cuda_fp16.h", "crt/mma.h", "cuda/std/cstdint")


@dataclass(frozen=True)
class Toolchain:
    """The tools that turn CUDA source into a cubin. A path is None where the tool is not there.

    version: NVRTC's, with its build (`13.0.88`), as ptxas inside it changes register counts between builds.
    include_dirs: passed as `-I`, in this order; trusted, as the user installed them.
    """

    nvrtc: Path | None
    builtins: Path | None
    version: str
    include_dirs: tuple[Path, ...]
    nvcc: Path | None
    cuobjdump: Path | None
    nvdisasm: Path | None

    @property
    def identity(self) -> str:
        """What kernel ids and the cache key hold, e.g. `nvrtc 13.0.88`."""
        return f"nvrtc {self.version}"

    @property
    def headers(self) -> str:
        """The versions of the headers that programs may include, for the cache key."""
        found = []
        for folder in self.include_dirs:
            for name, macro in (("cuda.h", "CUDA_VERSION"), ("cuda/std/__cccl/version.h", "CCCL_VERSION")):
                version = _macro(folder / name, macro)
                if version:
                    found.append(f"{folder}:{macro}={version}")
        return " ".join(found)


def find_toolchain() -> Toolchain:
    """The toolchain of this machine, looked up once for each setting of CUDA_HOME and CUDA_PATH.

    NVRTC is taken from CUDA_HOME or CUDA_PATH where they hold one, else from the `nvidia-cuda-nvrtc` wheel, else from
    /usr/local/cuda. Raises DeviceError where there is none.
    """
    return _find(os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), os.environ.get("PATH", ""))


@lru_cache(maxsize=8)
def _find(cuda_home: str, cuda_path: str, search_path: str) -> Toolchain:
    roots = _roots(cuda_home, cuda_path)
    nvrtc = next((library for root in roots if (library := _library(root, "libnvrtc.so"))), None)
    if nvrtc is None:
        raise DeviceError("no NVRTC library found", value=", ".join(map(str, roots)), next_step=INSTALL + ".")
    builtins = _library(nvrtc.parent.parent, "libnvrtc-builtins.so")
    if builtins is None:
        raise DeviceError(
            "NVRTC lacks its libnvrtc-builtins",
            value=nvrtc.parent,
            next_step=f"Reinstall it. {INSTALL}.",
        )
    own_root = nvrtc.parent.parent
    return Toolchain(
        nvrtc=nvrtc,
        builtins=builtins,
        version=_nvrtc_version(nvrtc),
        include_dirs=_include_dirs([own_root, *(root for root in roots if root != own_root)]),
        nvcc=_program("nvcc", roots, search_path),
        cuobjdump=_program("cuobjdump", roots, search_path),
        nvdisasm=_program("nvdisasm", roots, search_path),
    )


def _roots(cuda_home: str, cuda_path: str) -> list[Path]:
    """Folders that may hold `lib`, `include` and `bin`, best first."""
    roots = [Path(text) for text in (cuda_home, cuda_path) if text]
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        roots += [Path(place) / name for name in _WHEEL_ROOTS]
    roots.append(_DEFAULT_ROOT)
    return list(dict.fromkeys(root for root in roots if root.is_dir()))


def _library(root: Path, stem: str) -> Path | None:
    """The newest `stem[.N…]` under a root's library folders; `libnvrtc.alt.so` is a variant for another linker."""
    for folder in (root / "lib64", root / "lib", root / "targets/x86_64-linux/lib", root / "targets/sbsa-linux/lib"):
        found = [path for path in folder.glob(f"{stem}*") if re.fullmatch(re.escape(stem) + r"(\.\d+)*", path.name)]
        if found:
            return max(found, key=lambda path: [int(part) for part in re.findall(r"\d+", path.name)])
    return None


def _nvrtc_version(library: Path) -> str:
    """Major.minor.build where the file's name, the wheel's metadata or the toolkit's manifest tells it."""
    in_name = re.search(r"\.so\.(\d+\.\d+\.\d+)$", library.resolve().name)
    if in_name:
        return in_name.group(1)
    site = library.parents[3] if len(library.parents) > 3 else library.parent
    wheels = [re.match(r"nvidia_cuda_nvrtc(?:_cu\d+)?-([\d.]+)\.dist-info$", path.name) for path in _listing(site)]
    versions = [match.group(1) for match in wheels if match]
    if "nvidia" in library.parts and len(versions) == 1:
        return versions[0]
    manifest = library.parents[1] / "version.json"
    if manifest.is_file():
        entry = json.loads(manifest.read_text()).get("cuda_nvrtc", {})
        if isinstance(entry, dict) and isinstance(entry.get("version"), str):
            return str(entry["version"])
    return _ask_library(library)


def _ask_library(library: Path) -> str:
    """Major.minor as nvrtcVersion reports it (the build number is not in the API)."""
    try:
        loaded = ctypes.CDLL(str(library))
    except OSError as error:
        raise DeviceError(f"NVRTC does not load ({error})", value=library, next_step=INSTALL + ".") from error
    major, minor = ctypes.c_int(), ctypes.c_int()
    if loaded.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) != 0:
        raise DeviceError("NVRTC does not tell its version", value=library, next_step=INSTALL + ".")
    return f"{major.value}.{minor.value}"


def _include_dirs(roots: Iterable[Path]) -> tuple[Path, ...]:
    """For each header set the first folder that has it, the one beside NVRTC before any other."""
    folders = [root / sub for root in roots for sub in ("include", "include/cccl")]
    chosen = [next((folder for folder in folders if (folder / marker).is_file()), None) for marker in _HEADER_SETS]
    return tuple(dict.fromkeys(folder for folder in chosen if folder is not None))


def _program(name: str, roots: Iterable[Path], search_path: str) -> Path | None:
    places = [str(root / "bin") for root in roots]
    spec = importlib.util.find_spec("triton")
    if spec is not None and spec.origin is not None:
        places.append(str(Path(spec.origin).parent / "backends/nvidia/bin"))
    found = shutil.which(name, path=os.pathsep.join([*places, search_path]))
    return None if found is None else Path(found)


def _listing(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


@lru_cache(maxsize=32)
def _macro(header: Path, macro: str) -> str | None:
    if not header.is_file():
        return None
    match = re.search(rf"^\s*#\s*define\s+{macro}\s+(\d+)", header.read_text(errors="replace"), re.MULTILINE)
    return match.group(1) if match else None
