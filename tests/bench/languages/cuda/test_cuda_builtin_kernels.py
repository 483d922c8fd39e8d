"""Every CUDA kernel that ships compiles, as its header declares it, with its default tunables."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import kforecast
from kforecast.bench.languages.cuda.cache import BuildCache
from kforecast.bench.languages.cuda.compile import compile_cuda
from kforecast.bench.languages.cuda.pool import CompilePool
from kforecast.store.models import Kernel

BUILTIN = Path(str(kforecast.__file__)).parent / "bench" / "tasks" / "builtin"
FILES = sorted(BUILTIN.glob("*/*.cu"))


def test_there_are_kernels() -> None:
    assert len(FILES) >= 19


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_it_compiles(path: Path, pool: CompilePool, cache: BuildCache, kernel: Callable[..., Kernel]) -> None:
    source = path.read_text()
    block = re.match(r"/\* kforecast 1\n(.*?)\*/", source, re.DOTALL)
    assert block is not None
    header = tomllib.loads(block.group(1))
    tunables = {name: values[0] for name, values in header.get("tune", {}).items() if name != "when"}
    entries = [launch["entry"] for launch in header["launch"]]
    made = kernel(source, *entries, name=path.name, tunables=tunables, options=tuple(header.get("options", ())))
    built = compile_cuda(made, arch="sm_90", pool=pool, cache=cache)
    assert built.ok, built.facts.error
    assert built.facts.warnings == ""
    assert all(entry.registers and entry.spill_bytes is not None for entry in built.facts.entries)
