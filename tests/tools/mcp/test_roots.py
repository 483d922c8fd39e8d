"""Which files a client may name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforecast.store.errors import InputError
from kforecast.tools.mcp.roots import Roots


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Roots:
    for name in ("here", "shared", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.c").write_text("int x;")
    monkeypatch.chdir(tmp_path / "here")
    return Roots.of([tmp_path / "shared"])


def test_the_working_directory_and_the_named_folders_are_allowed(roots: Roots, tmp_path: Path) -> None:
    for path in ("a.c", "new/b.c", tmp_path / "here" / "a.c", tmp_path / "shared" / "a.c", "../shared/a.c"):
        roots.admit(Path(path))


@pytest.mark.parametrize("path", ["../elsewhere/a.c", "/etc/passwd", "~/x.c", "..", "/", "/proc/self/root/etc/passwd"])
def test_nothing_else_is(roots: Roots, path: str) -> None:
    with pytest.raises(InputError, match="outside the folders"):
        roots.admit(Path(path))


def test_links_are_followed_both_ways(roots: Roots, tmp_path: Path) -> None:
    Path("out.c").symlink_to(tmp_path / "elsewhere" / "a.c")
    Path("folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in").symlink_to(tmp_path / "here")
    for path in ("out.c", "folder/a.c"):
        with pytest.raises(InputError, match="outside"):
            roots.admit(Path(path))
    roots.admit(tmp_path / "in" / "a.c")


def test_a_loop_of_links_is_an_error(roots: Roots) -> None:
    Path("loop.c").symlink_to("loop.c")
    with pytest.raises(InputError):
        roots.admit(Path("loop.c"))


def test_a_client_that_starts_servers_in_the_root_folder_does_not_mean_all_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir("/")
    with pytest.raises(InputError, match=r"Allowed: none"):
        Roots.of([]).admit(Path("/etc/passwd"))
    Roots.of([Path("/")]).admit(Path("/etc/passwd"))
