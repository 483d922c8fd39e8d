"""The fence around compilers, through each of its makers that this machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforecast.bench import fence
from kforecast.bench.fence import Fence, find_fence
from kforecast.bench.landlock import landlock_version
from kforecast.bench.languages.c import build_trusted, find_compiler
from kforecast.bench.processes import run_limited
from kforecast.store.errors import DeviceError
from kforecast.store.paths import cache_dir


def found(folder: Path) -> Fence:
    made = find_fence(folder, [find_compiler().path], lambda: build_trusted("confined.c", cache_dir()))
    assert made is not None
    return made


@pytest.fixture(params=["landlock", "bubblewrap"])
def fenced(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fence:
    folder = tmp_path / "inside"
    folder.mkdir()
    if request.param == "bubblewrap":
        monkeypatch.setattr(fence, "landlock_version", lambda: 0)
        if found(folder).words != "bubblewrap":
            pytest.skip("no bubblewrap that works here")
    elif not landlock_version():
        pytest.skip("this kernel has no Landlock")
    return found(folder)


def test_only_system_files_are_read_and_only_the_folder_is_written(fenced: Fence, tmp_path: Path) -> None:
    inside, secret = tmp_path / "inside", tmp_path / "secret"
    secret.write_text("hush")
    script = (
        f"cat {secret} /etc/passwd; echo planted > {tmp_path}/planted; echo fine > here; cat here /usr/include/errno.h"
    )
    outcome = run_limited(["/bin/sh", "-c", script], cwd=inside, deadline_s=20, fence=fenced)
    assert "hush" not in outcome.output
    assert "root:" not in outcome.output
    assert "fine" in outcome.output
    assert "ERRNO_H" in outcome.output
    assert not (tmp_path / "planted").exists()


def test_the_exit_code_and_the_deadline_are_the_programs_own(fenced: Fence, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    assert run_limited(["/bin/sh", "-c", "exit 7"], cwd=inside, deadline_s=20, fence=fenced).returncode == 7
    assert run_limited(["/bin/sleep", "60"], cwd=inside, deadline_s=0.3, fence=fenced).timed_out


def test_without_landlock_and_bubblewrap_the_filter_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "landlock_version", lambda: 0)
    monkeypatch.setattr(fence, "_bubblewrap", lambda: None)
    assert found(tmp_path).words == "seccomp"


def test_where_the_launcher_does_not_compile_there_is_no_fence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "_bubblewrap", lambda: None)

    def refuse() -> Path:
        raise DeviceError("no headers", next_step="Install them.")

    assert find_fence(tmp_path, [], refuse) is None
