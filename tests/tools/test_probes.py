from __future__ import annotations

import os
from pathlib import Path

import pytest

from kforecast.tools import probes
from kforecast.tools.doctor import doctor


def put_program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the head of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_gpus_are_what_nvidia_smi_lists(programs: Path) -> None:
    put_program(
        programs,
        "nvidia-smi",
        "echo '0, NVIDIA H200, GPU-1a, 580.1, 143771, 9.0'; echo '1, NVIDIA X, GPU-2b, 580.1, [N/A], 9.0'",
    )
    first, second = probes.gpus()
    assert (first.index, first.name, first.uuid, first.memory_mib, first.compute_capability) == (
        0,
        "NVIDIA H200",
        "GPU-1a",
        143771,
        "9.0",
    )
    assert second.memory_mib is None


@pytest.mark.parametrize("body", ["echo no driver; exit 9", "echo garbage", "echo 'a, b, c, d, e, f'"])
def test_a_driver_that_does_not_answer_is_no_gpu(programs: Path, body: str) -> None:
    put_program(programs, "nvidia-smi", body)
    assert probes.gpus() == []


def test_doctor_lists_a_gpu_as_a_device(programs: Path) -> None:
    put_program(programs, "nvidia-smi", "echo '0, NVIDIA H200, GPU-1a, 580.1, 143771, 9.0'")
    report = doctor()
    (check,) = [check for check in report.checks if check.name == "cuda:0"]
    assert check.value == "NVIDIA H200, sm_90, 140 GiB, driver 580.1"
    assert report.gpus[0]["uuid"] == "GPU-1a"


def test_the_version_of_a_program_is_the_line_that_holds_it(programs: Path) -> None:
    put_program(programs, "bwrap", "echo; echo 'Copyright 2012'; echo 'bubblewrap 0.8.0'")
    assert probes.program_version("bwrap") == "bubblewrap 0.8.0"
    put_program(programs, "bwrap", "exit 3")
    assert probes.program_version("bwrap") is None
    assert probes.program_version("no-such-program") is None


def test_what_the_kernel_offers_is_told_without_changing_anything() -> None:
    abi = probes.landlock_abi()
    assert abi is None or abi >= 1
    assert probes.seccomp() in (True, False)
    error = probes.user_namespace_error()
    assert error is None or len(error) > 3
    assert 1 <= probes.usable_cores() <= (os.cpu_count() or 1)
