"""Every kernel that ships with the built-in tasks loads without a warning, and all its launches can be planned."""

from __future__ import annotations

from pathlib import Path

import pytest

import kforecast
from kforecast.bench.header.configure import configurations
from kforecast.bench.header.load import load_kernel
from kforecast.bench.header.plan import plan_launches
from kforecast.bench.tasks.load import resolve_task

BUILTIN = Path(kforecast.__file__).parent / "bench/tasks/builtin"
FILES = sorted(path for path in BUILTIN.glob("*/*") if path.suffix in (".c", ".cpp", ".cu"))
H200 = {"SMEM_MAX": 232448, "SM_COUNT": 132, "WARP": 32}


def test_there_are_some() -> None:
    assert {path.suffix for path in FILES} >= {".c", ".cu"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_shipped_kernel(path: Path) -> None:
    loaded = load_kernel(path, resolve_task=resolve_task)
    assert loaded.warnings == ()
    kind, constants = ("cpu", {}) if loaded.kernel.language == "c" else ("cuda", H200)
    for case in (*loaded.task.checked, *loaded.task.timed_on(kind)):
        planned = plan_launches(loaded.kernel, loaded.task, case, loaded.signatures, constants)
        assert len(planned) == len(loaded.kernel.launches)
    for configuration in configurations(loaded.tune, constants):
        kernel = loaded.configured(configuration, constants)
        assert plan_launches(kernel, loaded.task, loaded.task.checked[0], loaded.signatures, constants)
