"""One compile pool for all tests of the CUDA path, and kernels in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kforecast.bench.languages.build import Build
from kforecast.bench.languages.cuda.cache import BuildCache
from kforecast.bench.languages.cuda.compile import compile_cuda
from kforecast.bench.languages.cuda.pool import CompilePool
from kforecast.store.models import Kernel, Launch


@pytest.fixture(scope="session")
def pool() -> Iterator[CompilePool]:
    with CompilePool(workers=1) as pool:
        yield pool


@pytest.fixture
def cache(tmp_path: Path) -> BuildCache:
    return BuildCache(tmp_path / "builds")


@pytest.fixture(scope="session")
def kernel() -> Callable[..., Kernel]:
    def make(source: str, *entries: str, name: str = "user.cu", **more: Any) -> Kernel:
        launches = tuple(Launch(entry=entry, args=()) for entry in entries or ("k",))
        return Kernel.make(language="cuda", name=name, source=source, launches=launches, task_id="t_0", **more)

    return make


@pytest.fixture
def build(pool: CompilePool, cache: BuildCache, kernel: Callable[..., Kernel]) -> Callable[..., Build]:
    def run(source: str, *entries: str, arch: str = "sm_90", include_dirs: tuple[Path, ...] = (), **more: Any) -> Build:
        made = kernel(source, *entries, **more)
        return compile_cuda(made, arch=arch, include_dirs=include_dirs, pool=pool, cache=cache)

    return run
