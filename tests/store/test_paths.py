"""Fixed places per user: the variables, the defaults, and who may look in."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from kforecast.store import paths
from kforecast.store.errors import DeviceError, InputError

VARIABLES = ("KFORECAST_DB", "KFORECAST_RUNTIME_DIR", "KFORECAST_CACHE_DIR", "KFORECAST_CONFIG")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in (*VARIABLES, "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(paths, "SESSIONS", str(tmp_path / "sessions"))
    return tmp_path


def test_the_places_do_not_depend_on_the_working_directory(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def places() -> list[Path]:
        return [paths.store_path(), paths.config_path(), paths.cache_dir(), paths.runtime_dir()]

    monkeypatch.chdir("/")
    here = places()
    monkeypatch.chdir(home)
    assert places() == here
    assert all(place.is_absolute() and place.is_relative_to(home) for place in here)
    assert paths.store_path().name == "kforecast.db"
    assert not paths.store_path().parent.exists()


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("value", ["kforecast.db", "./x", "../x", "~nobody-of-that-name/x"])
def test_a_relative_variable_is_refused(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    place = dict(
        zip(VARIABLES, (paths.store_path, paths.runtime_dir, paths.cache_dir, paths.config_path), strict=True)
    )[variable]
    with pytest.raises(InputError, match=f"{variable} is a relative path.*{value}"):
        place()


def test_the_variables_win(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.setenv(variable, str(home / variable))
    assert paths.store_path() == home / "KFORECAST_DB"
    assert paths.runtime_dir() == home / "KFORECAST_RUNTIME_DIR"
    assert paths.cache_dir() == home / "KFORECAST_CACHE_DIR"
    assert paths.config_path() == home / "KFORECAST_CONFIG"
    monkeypatch.setenv("KFORECAST_DB", "~/mine.db")
    assert paths.store_path() == home / "mine.db"
    monkeypatch.setenv("KFORECAST_DB", "")
    assert paths.store_path().name == "kforecast.db"


def test_the_runtime_directory_is_the_sessions_where_there_is_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = home / "session"
    session.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    assert paths.runtime_dir() == session / "kforecast"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "gone"))
    assert paths.runtime_dir().parent == home


def test_who_has_no_session_variable_meets_the_session_all_the_same(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = home / "sessions" / str(os.getuid())
    session.mkdir(parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    of_the_session = paths.runtime_dir()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert paths.runtime_dir() == of_the_session == session / "kforecast"


def test_the_session_of_somebody_else_is_not_ours(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = home / "theirs"
    theirs.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(theirs))
    monkeypatch.setattr(os, "getuid", lambda: theirs.stat().st_uid + 1)
    assert not paths.runtime_path().is_relative_to(theirs)


def test_new_directories_are_closed_to_others(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORECAST_CACHE_DIR", str(home / "a" / "b"))
    for place in (paths.runtime_dir(), paths.cache_dir(), home / "a"):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_runtime_directory_open_to_others_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    place = home / "runtime"
    place.mkdir()
    place.chmod(mode)
    monkeypatch.setenv("KFORECAST_RUNTIME_DIR", str(place))
    with pytest.raises(DeviceError, match=r"yours alone.*chmod 700"):
        paths.runtime_dir()


def test_a_link_in_place_of_the_runtime_directory_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "elsewhere").mkdir(mode=0o700)
    (home / "runtime").symlink_to(home / "elsewhere")
    monkeypatch.setenv("KFORECAST_RUNTIME_DIR", str(home / "runtime"))
    with pytest.raises(DeviceError, match="yours alone"):
        paths.runtime_dir()


def test_a_file_in_the_way_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").touch()
    monkeypatch.setenv("KFORECAST_CACHE_DIR", str(home / "file"))
    with pytest.raises(DeviceError, match="A file stands"):
        paths.cache_dir()
    monkeypatch.setenv("KFORECAST_CACHE_DIR", str(home / "file" / "below"))
    with pytest.raises(DeviceError, match="cannot be made"):
        paths.cache_dir()
