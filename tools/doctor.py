"""What this machine has for kforecast, what is missing, and what to do about it. Reads only."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from .. import __version__
from ..bench.devices.cpu import machine
from ..bench.devices.cuda.device import device_facts
from ..bench.languages.c import find_compiler
from ..bench.languages.cuda.toolchain import find_toolchain
from ..bench.languages.triton.toolchain import find_triton
from ..store.database import Store
from ..store.errors import DeviceError, KforecastError
from ..store.faults import StoreMissing
from ..store.paths import CACHE_VARIABLE, RUNTIME_VARIABLE, cache_path, runtime_path, store_path
from ..store.profiles import Profile
from . import probes
from .config import load_config
from .profile import profile_words, stored_profile

State = Literal["ok", "note", "problem"]
Group = Literal["software", "store", "places", "compilers", "devices", "device profile", "isolation", "machine"]

_LEAST_FREE = {"temporary": 1 << 30, "cache": 64 << 20, "runtime": 1 << 20}
"""Bytes below which a place is too full."""
WAL_RESET_BUG = ((3, 7, 0), (3, 51, 2))
"""First and last SQLite versions with the WAL-reset corruption; see sqlite.org/wal.html."""


class Check(BaseModel):
    """One thing looked at. `note`: works without it, or worth knowing; `problem`: something a user asks for fails."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: Group
    name: str
    state: State
    value: str
    next: str | None = None


class DoctorReport(BaseModel):
    """All checks, and the devices that can measure now."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    checks: tuple[Check, ...]
    usable_devices: tuple[str, ...]
    gpus: tuple[dict[str, Any], ...]
    profiles: tuple[Profile, ...] = ()
    """The newest stored profile of each GPU that has one."""

    @property
    def ok(self) -> bool:
        return all(check.state != "problem" for check in self.checks)


def doctor() -> DoctorReport:
    """Look at this machine. Never raises for what it finds; every finding with a remedy carries it in `next`."""
    gpus = probes.gpus()
    compilers = list(_compilers())
    compiles_cuda = any(check.name == "NVRTC" and check.state == "ok" for check in compilers)
    devices = list(_devices(gpus, compiles_cuda))
    stored = _stored_profiles(gpus)
    fences = [*_isolation(), *_host_memory(gpus)]
    checks = [*_software(), *_store(), *_places(), *compilers, *devices, *_profiles(gpus, stored), *fences, *_machine()]
    usable = [check.name for check in devices if check.state == "ok"]
    return DoctorReport(
        version=__version__,
        checks=tuple(checks),
        usable_devices=tuple(usable),
        gpus=tuple(vars(gpu) for gpu in gpus),
        profiles=tuple(stored.values()),
    )


def _software() -> Iterator[Check]:
    yield _check("software", "kforecast", "ok", __version__)
    yield _check("software", "Python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    first, last = WAL_RESET_BUG
    affected = first <= sqlite3.sqlite_version_info <= last
    text = "has the rare WAL-reset bug; kforecast is safe: one process checkpoints at a time" if affected else "fine"
    yield _check("software", "SQLite", "ok", f"{sqlite3.sqlite_version}, {text}")
    try:
        config = load_config()
    except KforecastError as error:
        yield _check("software", "configuration", "problem", str(error.what), error.next_step)
        return
    found = str(config.path) if config.exists else f"{config.path} (not written; defaults hold)"
    yield _check("software", "configuration", "ok", found)
    for name, origin in config.origins.items():
        if origin != "default":
            yield _check("software", f"  {name}", "ok", f"{getattr(config, name)} (from the {origin})")


def _store() -> Iterator[Check]:
    try:
        path = store_path()
        yield _check("store", "file", "ok", str(path))
        with Store.open_readonly(path) as store:
            count = store.read("SELECT count(*) FROM measurements")[0][0]
            version = store.read("PRAGMA user_version")[0][0]
            size = path.stat().st_size / (1 << 20)
            yield _check("store", "contents", "ok", f"{count} measurements, {size:.1f} MiB")
            yield _check("store", "schema", "ok", f"version {version}, journal mode {store.journal_mode}")
            if store.notice:
                yield _check("store", "place", "note", store.notice)
    except StoreMissing as error:
        yield _check("store", "contents", "note", "not made yet", error.next_step)
    except KforecastError as error:
        yield _check("store", "contents", "problem", f"{error.what}: {error.value}", error.next_step)


def _places() -> Iterator[Check]:
    """Whether there is room and permission where measuring writes."""
    for name, place, variable, use in (
        ("cache", cache_path, CACHE_VARIABLE, "Compiled kernels are kept there"),
        ("runtime", runtime_path, RUNTIME_VARIABLE, "Brokers listen and devices are locked there"),
        ("temporary", lambda: Path(tempfile.gettempdir()), "TMPDIR", "Kernels are compiled and run there"),
    ):
        try:
            path = place()
        except KforecastError as error:
            yield _check("places", name, "problem", f"{error.what}: {error.value}", error.next_step)
            continue
        standing = next(one for one in (path, *path.parents) if one.exists())
        free = shutil.disk_usage(standing).free
        if not (standing.is_dir() and os.access(standing, os.W_OK | os.X_OK)):
            step = f"{use}: give yourself permission, or set {variable} to an absolute path."
            yield _check("places", name, "problem", f"{path} cannot be written", step)
        else:
            state: State = "ok" if free > _LEAST_FREE[name] else "problem"
            step = f"{use}: free some space, or set {variable} to an absolute path."
            yield _check("places", name, state, f"{path}, {free / (1 << 30):.1f} GiB free", step)


def _compilers() -> Iterator[Check]:
    for cpp, name in ((False, "C"), (True, "C++")):
        try:
            compiler = find_compiler(cpp)
            yield _check("compilers", name, "ok", f"{compiler.version} ({compiler.path})")
        except KforecastError as error:
            why = "none found" if isinstance(error, DeviceError) else f"{error.what}: {error.value}"
            yield _check("compilers", name, "note" if cpp else "problem", why, error.next_step)
    try:
        yield _check("compilers", "Triton", "ok", find_triton().version)
    except KforecastError as error:
        yield _check("compilers", "Triton", "note", "not found: no facts of Triton kernels", error.next_step)
    try:
        cuda = find_toolchain()
    except KforecastError as error:
        yield _check("compilers", "NVRTC", "note", "not found: no facts of CUDA kernels", error.next_step)
        return
    yield _check("compilers", "NVRTC", "ok", f"{cuda.version} ({cuda.nvrtc})")
    for name, path, why in (
        ("nvcc", cuda.nvcc, "sources that NVRTC cannot compile"),
        ("cuobjdump", cuda.cuobjdump, "the SASS of CUDA kernels"),
    ):
        step = None if path else f"Only needed for {why}; it comes with the CUDA toolkit."
        yield _check("compilers", name, "ok" if path else "note", str(path or "not found"), step)


def _devices(gpus: list[probes.Gpu], compiles_cuda: bool) -> Iterator[Check]:
    try:
        compiler = find_compiler()
        yield _check("devices", "cpu", "ok", f"usable: C and C++ kernels, compiled by {compiler.version}")
    except KforecastError as error:
        yield _check("devices", "cpu", "problem", "not usable: no C compiler", error.next_step)
    for gpu in gpus:
        memory = "" if gpu.memory_mib is None else f", {gpu.memory_mib / 1024:.0f} GiB"
        value = f"{gpu.name}, sm_{gpu.compute_capability.replace('.', '')}{memory}, driver {gpu.driver}"
        step = None if compiles_cuda else "Not usable without NVRTC: see the compilers above."
        yield _check("devices", f"cuda:{gpu.index}", "ok" if compiles_cuda else "note", value, step)
    if not gpus:
        yield _check("devices", "GPU", "note", "none seen (nvidia-smi lists none); not needed for the cpu device")


def _stored_profiles(gpus: list[probes.Gpu]) -> dict[int, Profile]:
    """The newest profiles by GPU index; none where the store cannot be read, which is told elsewhere."""
    if not gpus:
        return {}
    try:
        with Store.open_readonly(store_path()) as store:
            found = {gpu.index: stored_profile(gpu.uuid, store) for gpu in gpus}
    except KforecastError:
        return {}
    return {index: profile for index, profile in found.items() if profile is not None}


def _profiles(gpus: list[probes.Gpu], stored: Mapping[int, Profile]) -> Iterator[Check]:
    for gpu in gpus:
        name, profile = f"cuda:{gpu.index} profile", stored.get(gpu.index)
        if profile is None:
            step = "Measure it with `kforecast doctor --profile` (a few seconds): floors and forecasts follow from it."
            yield _check("device profile", name, "note", "not measured yet", step)
            continue
        yield _check("device profile", name, "ok", f"measured {profile.created_at[:16].replace('T', ' ')} UTC")
        for label, text in profile_words(profile.facts):
            yield _check("device profile", f"  {label}", "ok", text)


def _host_memory(gpus: list[probes.Gpu]) -> Iterator[Check]:
    for gpu in gpus:
        name = f"cuda:{gpu.index} memory"
        try:
            reads = device_facts(gpu.index).pageable_memory_access
        except KforecastError as error:
            yield _check("isolation", name, "note", f"unknown: {error.what}", error.next_step)
            continue
        if reads:
            step = "A kernel can read the memory of the process that launches it; nothing secret is kept there."
            yield _check("isolation", name, "note", "device code reads host memory (pageableMemoryAccess 1)", step)
        else:
            text = "device code cannot read host memory (pageableMemoryAccess 0)"
            yield _check("isolation", name, "ok", text)


def _isolation() -> Iterator[Check]:
    refused = probes.user_namespace_error()
    yield _check(
        "isolation",
        "user namespaces",
        "note" if refused else "ok",
        f"refused: {refused}" if refused else "allowed",
        "Candidates run in plain processes; where you may, set kernel.unprivileged_userns_clone=1."
        if refused
        else None,
    )
    abi = probes.landlock_abi()
    yield _check("isolation", "Landlock", "ok" if abi else "note", f"version {abi}" if abi else "not available")
    filters = probes.seccomp()
    yield _check("isolation", "seccomp", "ok" if filters else "note", "available" if filters else "not available")
    bubblewrap = probes.program_version("bwrap")
    step = None if bubblewrap else "Optional: `apt install bubblewrap` fences compilers off the file system."
    yield _check("isolation", "bubblewrap", "ok" if bubblewrap else "note", bubblewrap or "not found", step)


def _machine() -> Iterator[Check]:
    about = machine.describe()
    usable, online = probes.usable_cores(), int(about["cores"] or 1)
    cores = f"{online} cores" if usable == online else f"{usable} of {online} cores"
    yield _check("machine", "processor", "ok", f"{about['cpu']}, {cores}, {about['cache_bytes'] >> 20} MiB cache")
    governor = about["governor"]
    steady = governor in (None, "performance")
    yield _check(
        "machine",
        "frequency",
        "ok" if steady else "note",
        "not exposed" if governor is None else f"governor {governor}",
        None if steady else "Clocks move under this governor; intervals get wider. kforecast never changes it.",
    )
    load = os.getloadavg()[0]
    quiet = load < 0.5 * usable
    yield _check(
        "machine",
        "load",
        "ok" if quiet else "note",
        f"{load:.2f} in the last minute",
        None if quiet else "Other work widens intervals: measure when the machine is quiet.",
    )


def _check(group: Group, name: str, state: State, value: str, step: str | None = None) -> Check:
    return Check(group=group, name=name, state=state, value=value, next=step)
