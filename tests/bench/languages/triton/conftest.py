"""One pool of Triton workers for all tests here, and kernels of files and of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kforecast.bench.header.load import LoadedKernel, load_kernel
from kforecast.bench.languages.build import Build
from kforecast.bench.languages.cuda.cache import BuildCache
from kforecast.bench.languages.triton.compile import compile_triton
from kforecast.bench.languages.triton.pool import TritonPool
from kforecast.bench.tasks.load import resolve_task

H200 = {"WARP": 32, "SM_COUNT": 132, "SMEM_MAX": 232448}


@pytest.fixture(scope="session")
def pool() -> Iterator[TritonPool]:
    pytest.importorskip("triton")
    with TritonPool(workers=1) as pool:
        yield pool


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> BuildCache:
    return BuildCache(tmp_path_factory.mktemp("builds"))


@pytest.fixture(scope="session")
def load() -> Callable[..., LoadedKernel]:
    def run(source: Path | str, **settings: int) -> LoadedKernel:
        return load_kernel(source, resolve_task=resolve_task, settings=settings)

    return run


@pytest.fixture(scope="session")
def build(pool: TritonPool, cache: BuildCache, load: Callable[..., LoadedKernel]) -> Callable[..., Build]:
    def run(source: Path | str, *, arch: str = "sm_90", deadline_s: float = 60.0, **settings: Any) -> Build:
        loaded = load(source, **settings)
        return compile_triton(
            loaded.kernel,
            loaded.task,
            loaded.signatures,
            arch=arch,
            constants=H200,
            deadline_s=deadline_s,
            pool=pool,
            cache=cache,
        )

    return run
